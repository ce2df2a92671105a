"""The native engine: upstream's `muse_glimmer_worker`, a program that the user built, as a child of our worker.

All that our worker promises (ping in every phase, exact ids, cancel, sessions without end) is made here of what that
program can do; what it cannot is said in `supports`. Facts: contracts/worker-protocol.md.
"""

"""The worker process: weights, KV cache, tokeniser and decode loop, behind the JSON lines of muse.protocol.

Runs as `python -m muse.worker`, started and watched by `guard.py`. Plain threads, no event loop, no HTTP
front; nothing here is imported by the main process but `guard.command`.
"""

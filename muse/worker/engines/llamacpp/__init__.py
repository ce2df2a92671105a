"""llama.cpp, by way of the xllamacpp package.

The native server runs in a process of its own (`serve.py`), a child of the worker: its load holds the GIL
from begin to end and its asserts abort, so in the worker's process it would keep ping, cancel and the end of
stdin waiting, and take the reason of a failure with it. The two talk HTTP over a unix socket in a private
folder, as any client of the native server would.
"""

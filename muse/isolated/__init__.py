"""Isolated jobs: functions over bytes that run in a process of their own, because a stranger's input may hang or crash
them, or fill the memory.

Runs as `python -m muse.isolated MODULE` behind the guard (muse/worker/guard.py), started and limited by
actors/isolated. MODULE has `JOBS`, a mapping from names to functions that take bytes and return bytes; it is imported
before the first job. A job may raise a MuseError, which the caller gets as its own. Its result is bytes that the caller
decodes as a stranger's: never pickle.
"""

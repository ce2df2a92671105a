"""Trio actors: each owns its state and answers messages; wired together in system.py."""

"""Runs Muse Glimmer's `.pte` programs in this process, through the Python runtime of the `executorch` wheel.

Facts: contracts/pte-contract.md and contracts/vision.md. Only `library.py` touches torch and the wheel; everything else
works on NumPy arrays, so it is tested without them.
"""

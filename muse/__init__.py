"""Muse Glimmer Playground: the pure core (settings, schemas, templates, protocol) and the worker process."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"

"""`python -m muse`."""

from __future__ import annotations

import sys

from muse.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Writes a stand-in artifact: `python -m tools.muse_nano.pte FOLDER [--draft] [--vision] [--vocabulary N]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.muse_nano.pte.programs import write_artifact, write_wide_artifact


def main() -> None:
    """Export one."""
    parser = argparse.ArgumentParser(prog="python -m tools.muse_nano.pte")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draft", action="store_true", help="with the DFlash draft")
    parser.add_argument("--vision", action="store_true", help="with the image tower")
    parser.add_argument("--vocabulary", type=int, help="random weights, with a draft, over so many tokens: to measure")
    options = parser.parse_args()
    if options.vocabulary is not None:
        write_wide_artifact(options.folder, vocabulary=options.vocabulary)
        return
    write_artifact(options.folder, has_draft=options.draft, has_vision=options.vision)


if __name__ == "__main__":
    main()

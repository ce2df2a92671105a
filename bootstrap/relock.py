"""Write the hash-pinned lock files anew; for maintainers, never part of a set-up.

Run it as `python3 -m bootstrap.relock [--upgrade] [NAME ...]` after changing a `bootstrap/locks/*.in` file. It needs
`uv` on the PATH (`pip install uv` in any environment) and the package index. Without `--upgrade` pins that still
satisfy the needs stay as they are.

Each lock is valid for every CPython and platform named below, holds the hashes of all files of each package (so also
of the wheels for machines other than this one) and names no address: where packages come from is the business of
the user's own pip settings. The page's packages have their own lock: `npm install --package-lock-only` in web_dist/.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCKS = Path(__file__).resolve().parent / "locks"
OLDEST_PYTHON = "3.11"
# `only_needed` locks hold a wheel alone, without what the package's own metadata asks for.
# The executorch wheel names a dozen more than its runtime imports, one of which exists as source only.
ONLY_NEEDED = frozenset({"model", "node", "pip", "uv", "executorch", "executorch-test"})
BASES_OF: dict[str, tuple[str, ...]] = {
    "test": ("run",),
    "executorch": ("run",),
    "executorch-test": ("run", "test", "executorch"),
}
# What two locks may both hold, since neither is below the other everywhere; they must agree on the version.
AGREED = {"executorch": ("test",)}
NAMES = ("pip", "uv", "node", "model", "run", "test", "executorch", "executorch-test")
# PyTorch's build for the CPU of Linux on x86-64 (CPython 3.11), which the index does not have: pip takes it where it is
# told of a place that has it, since `2.13.0+cpu` counts as newer than `2.13.0`.
FURTHER_HASHES = {
    "torch==2.13.0": ("6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",),
}
# The index's own files for that machine (CPython 3.11 to 3.14) are builds for CUDA, which cannot be imported without
# two gigabytes of further packages. They must not be in the lock: pip prefers a file whose address names an allowed
# hash to a newer one whose address names none, as those in a folder do.
LEFT_OUT_HASHES = {
    "torch==2.13.0": (
        "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
        "796633c4cdf0fe2cdced72d8f88f22e73dbcfce83132763162f6d4bff13b820b",
        "a3a9a21312872af8a26950b2c15680335a386a1f56ed03e780653d78b9607e9e",
        "49f1ea385c754e54919408a9bb3b5a72b0b755bbe2c916c1d6f70afbec4908a2",
    ),
}

PROJECT = """\
[project]
name = "relock"
version = "0"
requires-python = ">=3.11,<3.15"
[tool.uv]
environments = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
required-environments = [
    "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "sys_platform == 'linux' and platform_machine == 'aarch64'",
    "sys_platform == 'darwin' and platform_machine == 'arm64'",
]
"""
# uv repeats the environments above behind every pin; set-up refuses other systems long before pip runs.
ALWAYS_TRUE = re.compile(r" ; sys_platform == 'darwin' or sys_platform == 'linux'(?= \\$)", re.MULTILINE)


def compile_lock(name: str, *, uv: str, upgrade: bool) -> str:
    """Resolve `<name>.in` and return the text of its lock file; raises CalledProcessError with uv's words on stderr."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "pyproject.toml").write_text(PROJECT)
        target = folder / f"{name}.txt"
        known = LOCKS / f"{name}.txt"
        if known.exists():
            shutil.copy(known, target)
        command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "-o", str(target)]
        command += ["--no-deps"] if name in ONLY_NEEDED else []
        command += ["--upgrade"] if upgrade else []
        bases = BASES_OF.get(name, ())
        for base in (*bases, *AGREED.get(name, ())):
            command += ["-c", str(LOCKS / f"{base}.txt")]
        # With what they ask for, needs are resolved together with those below; alone, a lock is its needs.
        command += [str(LOCKS / f"{base}.in") for base in bases if name not in ONLY_NEEDED]
        subprocess.run([*command, str(LOCKS / f"{name}.in")], cwd=folder, check=True)
        text = ALWAYS_TRUE.sub("", target.read_text())
    for base in bases:
        text = without_pins(text, LOCKS / f"{base}.txt")
    return "".join(map(with_further_hashes, blocks(text)))


def without_pins(text: str, base: Path) -> str:
    """Leave out of `text` what the lock `base` pins already, since it is always installed on top of that one."""
    pinned = {pin_name(block) for block in blocks(base.read_text())}
    return "".join(block for block in blocks(text) if pin_name(block) not in pinned)


def with_further_hashes(block: str) -> str:
    """The lock entry with the hashes of files that are published elsewhere, and without those that must not be had."""
    pin = block.split(" ", 1)[0]
    known = [line for line in block.splitlines() if "--hash=" in line]
    hashes = {line.strip(" \\") for line in known} | {f"--hash=sha256:{value}" for value in FURTHER_HASHES.get(pin, ())}
    hashes -= {f"--hash=sha256:{value}" for value in LEFT_OUT_HASHES.get(pin, ())}
    head = block.splitlines()[0]
    return "\n".join([head, *(f"    {value} \\" for value in sorted(hashes))]).rstrip(" \\") + "\n"


def blocks(text: str) -> list[str]:
    """Split a lock into one string for each package: the pin's line and its hash lines."""
    return re.findall(r"^\S.*\n(?:[ \t]+.*\n)*", text, re.MULTILINE)


def pin_name(block: str) -> str:
    return block.split("==", 1)[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bootstrap.relock", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--upgrade", action="store_true", help="move every pin to the newest version that fits")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which locks (default: all of {', '.join(NAMES)})")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no such lock: {', '.join(sorted(unknown))}")
    uv = shutil.which("uv")
    if uv is None:
        parser.error("uv is not on the PATH; `pip install uv` in an environment of yours brings it")
    for name in NAMES:
        if options.names and name not in options.names:
            continue
        text = compile_lock(name, uv=uv, upgrade=options.upgrade)
        (LOCKS / f"{name}.txt").write_text(text)
        sys.stdout.write(f"{name}.txt: {len(blocks(text))} packages, {text.count('--hash=')} hashes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

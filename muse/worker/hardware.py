"""What this machine computes on, by the name that its maker gave it. For people only."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path


def processor_name() -> str:
    """For example "Apple M3 Max", which on Apple silicon names the graphics part too; the architecture if no name can
    be found."""
    try:
        if sys.platform == "darwin":
            asked = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        else:
            facts = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
            name = _named(facts)
    except (OSError, subprocess.CalledProcessError):
        name = ""
    return " ".join(name.split()) or platform.machine()


def _named(facts: str) -> str:
    """The name in /proc/cpuinfo; there is none on many ARM machines."""
    found = re.search(r"^model name\s*:(.*)$", facts, re.MULTILINE)
    return found[1] if found else ""

"""Private names of these packages are used or worked around; another version has to be read first.

What to read again: `H11Protocol._check_protocol`, `_send_error_response`, `_handle_events`, `_maybe_recycle`,
`HTTPStream.app_send`, `Lifespan`, `Config.response_headers` (hypercorn); `TrioASGIHTTPConnection`, `TrioBody`
(quart-trio); `ASGIHTTPConnection._send_response`, `Response` (quart); limits and lenience of the parser (h11).
"""

from __future__ import annotations

from importlib.metadata import version

import pytest


@pytest.mark.parametrize(
    "package, known", [("hypercorn", "0.18.0"), ("quart", "0.22.0"), ("quart-trio", "0.12.0"), ("h11", "0.16.0")]
)
def test_front_was_read_against_this_version(package: str, known: str) -> None:
    """The installed version is the one that the front was written and tested against."""
    assert version(package) == known

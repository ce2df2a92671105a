"""Invariant: only requests from this server's own page, or from no page at all, pass the checks."""

from __future__ import annotations

import attrs
import pytest

from actors.front.security import RequestHead, SecurityPolicy, check_request
from tests.front.harness import running

PORT = 3939
HOST = b"127.0.0.1:3939"


@attrs.define
class Bound:
    port: int = PORT
    any_address: bool = False
    host_names: tuple[str, ...] = ()


POLICY = SecurityPolicy.for_binding(Bound())


def head(
    *headers: tuple[bytes, bytes], method: str = "GET", path: bytes = b"/api/runtime", host: bytes = HOST
) -> RequestHead:
    return RequestHead(method, path, ((b"host", host), *headers))


def refusal(request: RequestHead, policy: SecurityPolicy = POLICY, *, public: bool = False) -> tuple[int, str] | None:
    fault = check_request(policy, request, public=public)
    return None if fault is None else (fault.status, fault.code)


@pytest.mark.parametrize(
    "host",
    [b"127.0.0.1:3939", b"localhost:3939", b"LocalHost:3939", b"LOCALHOST:3939", b"[::1]:3939"],
)
def test_own_host_passes(host: bytes) -> None:
    """The three loopback names with our port, in any case of letters."""
    assert refusal(head(host=host)) is None


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b" ",
        b"127.0.0.1",
        b"localhost",
        b"[::1]",
        b"127.0.0.1:80",
        b"127.0.0.1:3938",
        b"127.0.0.1:39390",
        b"127.0.0.1:03939",
        b"127.0.0.1:+3939",
        b"127.0.0.1:3939 ",
        b"127.0.0.1:3939:3939",
        b"127.0.0.1:3939/",
        b"127.0.0.1:3939#",
        b"127.0.0.1:3939?",
        b"127.0.0.1 :3939",
        b"127.0.0.1.:3939",
        b"127.0.0.2:3939",
        b"127.1:3939",
        b"127.0.0.01:3939",
        b"2130706433:3939",
        b"0x7f000001:3939",
        b"0:3939",
        b"0.0.0.0:3939",
        b"[::]:3939",
        b"::1:3939",
        b"[::1:3939",
        b"[0:0:0:0:0:0:0:1]:3939",
        b"[::ffff:127.0.0.1]:3939",
        b"[::1%lo]:3939",
        b"localhost.:3939",
        b"localhost.example.com:3939",
        b"localhost.localdomain:3939",
        b"example.com:3939",
        b"example.com",
        b"127.0.0.1.nip.io:3939",
        b"user@127.0.0.1:3939",
        b"127.0.0.1:3939@example.com",
        b"example.com, 127.0.0.1:3939",
        b"127.0.0.1:3939,example.com",
        b"http://127.0.0.1:3939",
        b"loc\xc3\xa1lhost:3939",
        b"\xff\xfe",
        b"lo\xe3\x80\x82calhost:3939",
        b"%6c%6f%63%61%6c%68%6f%73%74:3939",
        b"localhost\t:3939",
    ],
)
def test_other_spelling_of_the_host_is_refused(host: bytes) -> None:
    """Names that resolve to this machine, or look as if, are no exception: rebinding needs just that."""
    assert refusal(head(host=host)) == (403, "forbidden_host")


def test_missing_and_repeated_host_are_refused() -> None:
    """Exactly one Host header."""
    assert refusal(RequestHead("GET", b"/", ())) == (403, "forbidden_host")
    assert refusal(head((b"host", HOST))) == (403, "forbidden_host")


def test_default_port_may_be_left_out() -> None:
    """On port 80 browsers send no port."""
    policy = SecurityPolicy.for_binding(Bound(port=80))
    assert refusal(head(host=b"localhost"), policy) is None
    assert refusal(head(host=b"localhost:80"), policy) is None


def test_names_of_an_open_binding() -> None:
    """Its own names and any address literal pass, other names do not."""
    policy = SecurityPolicy.for_binding(Bound(any_address=True, host_names=("box", "box.local")))
    for host in (b"box:3939", b"BOX.local:3939", b"192.168.1.7:3939", b"[fe80::1]:3939", b"localhost:3939"):
        assert refusal(head(host=host), policy) is None
    for host in (
        b"192.168.1.7",
        b"192.168.1.7:80",
        b"example.com:3939",
        b"1.2.3:3939",
        b"[::g]:3939",
        b"2130706433:3939",
    ):
        assert refusal(head(host=host), policy) == (403, "forbidden_host")


@pytest.mark.parametrize("origin", [b"http://127.0.0.1:3939", b"HTTP://127.0.0.1:3939"])
def test_own_origin_passes(origin: bytes) -> None:
    """The page's own requests carry the origin that is also the Host."""
    assert refusal(head((b"origin", origin))) is None


@pytest.mark.parametrize(
    "origin",
    [
        b"null",
        b"",
        b"http://example.com",
        b"https://127.0.0.1:3939",
        b"http://127.0.0.1",
        b"http://127.0.0.1:8080",
        b"http://localhost:3939",
        b"http://127.0.0.1:3939.example.com",
        b"http://127.0.0.1:3939/",
        b"http://user@127.0.0.1:3939",
        b"file://",
        b"chrome-extension://abc",
    ],
)
def test_other_origin_is_refused(origin: bytes) -> None:
    """Any origin but the one the request went to, also the other name of this very server."""
    assert refusal(head((b"origin", origin))) == (403, "forbidden_origin")


def test_second_origin_is_looked_at_too() -> None:
    """Repeating a header is no way past the check."""
    assert refusal(head((b"origin", b"http://127.0.0.1:3939"), (b"origin", b"http://evil"))) is not None
    assert refusal(head((b"sec-fetch-site", b"same-origin"), (b"sec-fetch-site", b"cross-site"))) is not None


@pytest.mark.parametrize("site", [b"same-origin", b"none"])
def test_own_page_and_typed_address_pass(site: bytes) -> None:
    """What browsers say of the page's own requests and of the address bar."""
    assert refusal(head((b"sec-fetch-site", site))) is None


@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"Cross-Site", b"", b"new-value"])
def test_other_site_is_refused(site: bytes) -> None:
    """Another site, another port of this machine, and values nobody knows yet."""
    assert refusal(head((b"sec-fetch-site", site))) == (403, "forbidden_site")


def test_link_from_another_site_opens_only_the_page() -> None:
    """A navigation of a tab to the start page passes; anything that only resembles it does not."""
    site, mode, dest = (
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-mode", b"navigate"),
        (b"sec-fetch-dest", b"document"),
    )
    frame, cors = (b"sec-fetch-dest", b"iframe"), (b"sec-fetch-mode", b"no-cors")
    assert refusal(head(site, mode, dest, path=b"/"), public=True) is None
    for request in (
        head(site, mode, dest, path=b"/health"),
        head(site, mode, dest, path=b"/app.js"),
        head(site, mode, dest, path=b"/index.html"),
        head(site, mode, dest, path=b"/", method="POST"),
        head(site, mode, dest, path=b"/", method="HEAD"),
        head(site, mode, frame, path=b"/"),
        head(site, cors, dest, path=b"/"),
        head(site, mode, path=b"/"),
        head(site, dest, path=b"/"),
    ):
        assert refusal(request, public=True) == (403, "forbidden_site")


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "BREW", "get"])
def test_other_methods_are_refused(method: str) -> None:
    """Preflights above all."""
    assert refusal(head(method=method)) == (405, "method_not_allowed")


@pytest.mark.parametrize("path", [b"", b"*", b"http://127.0.0.1:3939/", b"//evil/", b"api", b"?x"])
def test_other_targets_are_refused(path: bytes) -> None:
    """Only paths."""
    assert refusal(head(path=path)) == (400, "bad_target")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
@pytest.mark.parametrize("length", [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")])
@pytest.mark.parametrize(
    "content_type, passes",
    [
        (b"application/json", True),
        (b"Application/JSON", True),
        (b"application/json; charset=utf-8", True),
        (b'application/json;charset="UTF-8"', True),
        (b"application/json; charset=utf-16", False),
        (b"application/json; a=b", False),
        (b"application/json,text/plain", False),
        (b"application/jsonp", False),
        (b"text/plain", False),
        (b"text/plain; application/json", False),
        (b"multipart/form-data; boundary=x", False),
        (b"application/x-www-form-urlencoded", False),
        (b"", False),
        (None, False),
    ],
)
def test_bodies_must_be_json(
    method: str, length: tuple[bytes, bytes], content_type: bytes | None, passes: bool
) -> None:
    """A form can send the other types across sites without asking."""
    headers = [length] if content_type is None else [length, (b"content-type", content_type)]
    expected = None if passes else (415, "unsupported_media_type")
    assert refusal(head(*headers, method=method)) == expected


def test_request_without_body_needs_no_type() -> None:
    """POST with nothing in it is fine from our own page."""
    assert refusal(head(method="POST")) is None
    assert refusal(head((b"content-length", b"0"), (b"content-type", b"text/plain"), method="POST")) is None


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"x-gzip", b"identity, gzip", b""])
def test_compressed_bodies_are_refused(encoding: bytes) -> None:
    """No decompression, no bomb."""
    headers = [(b"content-length", b"2"), (b"content-type", b"application/json"), (b"content-encoding", encoding)]
    assert refusal(head(*headers, method="POST")) == (415, "unsupported_content_encoding")


@pytest.mark.parametrize(
    "values, passes",
    [
        ([b"Bearer secret"], True),
        ([b"bearer secret"], True),
        ([b"Bearer  secret"], True),
        ([b"Bearer secre"], False),
        ([b"Bearer secret1"], False),
        ([b"Bearer "], False),
        ([b"Basic secret"], False),
        ([b"secret"], False),
        ([b"Bearer \xff"], False),
        ([], False),
        ([b"Bearer secret", b"Bearer secret"], False),
    ],
)
def test_key_is_asked_for_where_one_is_set(values: list[bytes], passes: bool) -> None:
    """For everything but the page's files."""
    policy = SecurityPolicy.for_binding(Bound(), key="secret")
    request = head(*[(b"authorization", value) for value in values])
    assert refusal(request, policy) == (None if passes else (401, "invalid_api_key"))
    assert refusal(request, policy, public=True) is None


def test_key_does_not_show_in_the_policy() -> None:
    """A policy may be logged."""
    assert "secret" not in repr(SecurityPolicy.for_binding(Bound(), key="secret"))


@pytest.mark.parametrize("path", ["/health", "/", "/app.js", "/missing", "/quiet"])
@pytest.mark.parametrize(
    "extra, status",
    [
        (("origin", "http://evil.example"), 403),
        (("sec-fetch-site", "cross-site"), 403),
        (("host", "evil.example"), 400),  # a second Host; h11 refuses it before us
    ],
)
async def test_checks_cover_every_path(path: str, extra: tuple[str, str], status: int) -> None:
    """Routes, files, streams and unknown paths alike, and the answer gives nothing away."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", path, ": ".join(extra), "Connection: close"))
        answer = await client.read_all()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"access-control-" not in answer.lower()
    assert b"text/html" not in answer


async def test_preflight_is_405_without_cors_headers() -> None:
    """A browser that asks whether it may, may not."""
    async with running() as front, await front.connect() as client:
        answer = await client.ask(
            "OPTIONS",
            "/echo",
            ("origin", "http://evil.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-private-network", "true"),
        )
    assert answer.status == 405
    assert answer.header(b"allow") == b"DELETE, GET, HEAD, PATCH, POST, PUT"
    assert not [name for name, _ in answer.headers if name.startswith(b"access-control")]


@pytest.mark.parametrize("path, status", [("/health", 200), ("/", 200), ("/missing", 404), ("/crash", 500)])
async def test_security_headers_are_on_every_answer(path: str, status: int) -> None:
    """Good and bad, page and API."""
    async with running() as front, await front.connect() as client:
        answer = await client.ask("GET", path)
    assert answer.status == status
    csp = answer.header(b"content-security-policy") or b""
    assert b"default-src 'none'; script-src 'self'; style-src 'self'" in csp
    assert b"unsafe" not in csp
    assert b"require-trusted-types-for 'script'; trusted-types 'none'" in csp
    assert answer.header(b"x-content-type-options") == b"nosniff"
    assert answer.header(b"referrer-policy") == b"no-referrer"
    assert answer.header(b"cross-origin-resource-policy") == b"same-origin"
    assert answer.header(b"cross-origin-opener-policy") == b"same-origin"
    assert answer.header(b"cache-control") == (b"no-cache" if path == "/" else b"no-store")
    assert answer.header(b"server") is None


async def test_key_on_the_wire() -> None:
    """Without it the API is shut and the page is not."""
    async with running(key="secret") as front, await front.connect() as client:
        refused = await client.ask("GET", "/health")
        assert (refused.status, refused.header(b"www-authenticate")) == (401, b"Bearer")
        assert (await client.ask("GET", "/health", ("authorization", "Bearer secret"))).status == 200
        assert (await client.ask("GET", "/")).status == 200

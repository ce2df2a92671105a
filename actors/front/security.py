"""Which requests may reach a route at all. Pure functions over the request's head.

What they stand against: a web page of somebody else, open in the user's browser, that reaches for this server
(DNS rebinding: the Host header tells; cross-site requests: Origin and Sec-Fetch-Site tell; "simple" form posts:
the content type tells). A local program is not held back by any of this, only by the key, where one is set.

Every check sees the raw bytes of the head and refuses what it does not know. There are no CORS headers in this
product, so no answer to a preflight either: OPTIONS is a 405.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from typing import Final, Protocol

import attrs

from muse.errors import ClientFault, MuseError

Header = tuple[bytes, bytes]

CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""On every answer, errors and the page included. No `Server`, no `Access-Control-*`."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
LOOPBACK_NAMES: Final = (b"127.0.0.1", b"localhost", b"[::1]")
JSON_TYPE: Final = re.compile(rb'application/json(?:\s*;\s*charset\s*=\s*"?utf-8"?)?\s*', re.IGNORECASE)


class Addressed(Protocol):
    """What the policy needs to know of a bound server (see `binding.Binding`)."""

    @property
    def port(self) -> int: ...
    @property
    def any_address(self) -> bool: ...
    @property
    def host_names(self) -> tuple[str, ...]: ...


@attrs.frozen(kw_only=True)
class SecurityPolicy:
    """Who may ask.

    Args:
        hosts: accepted Host headers, lower-case, with port.
        port: the port that an IP literal must name, where `any_address` holds.
        any_address: accept every IP literal as Host. Only for a server bound to all addresses: rebinding needs
            a name, so a literal is no sign of it.
        key: secret that API requests must bring as `Authorization: Bearer`; None asks for nothing.
    """

    hosts: frozenset[bytes]
    port: int
    any_address: bool = False
    key: bytes | None = attrs.field(default=None, repr=False)

    @classmethod
    def for_binding(cls, binding: Addressed, *, key: str | None = None) -> SecurityPolicy:
        """The policy of a server that listens where `binding` says."""
        names = {*LOOPBACK_NAMES, *(name.lower().encode("ascii") for name in binding.host_names)}
        hosts = {b"%b:%d" % (name, binding.port) for name in names}
        if binding.port == 80:
            hosts |= names  # RFC 9110 section 4.2.3: clients leave out the default port
        return cls(
            hosts=frozenset(hosts),
            port=binding.port,
            any_address=binding.any_address,
            key=None if key is None else key.encode(),
        )


@attrs.frozen
class RequestHead:
    """Method, raw path (no query) and headers as received; header names are lower-case (h11 sees to that)."""

    method: str
    raw_path: bytes
    headers: tuple[Header, ...]

    @classmethod
    def of(cls, method: str, raw_path: bytes, headers: Iterable[Header]) -> RequestHead:
        return cls(method, raw_path, tuple(headers))

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    @property
    def declared_bytes(self) -> int:
        """Content-Length, or 0. h11 has checked that it is one number."""
        return int(next(iter(self.values(b"content-length")), b"0"))

    @property
    def has_body(self) -> bool:
        return bool(self.declared_bytes or self.values(b"transfer-encoding"))


def check_request(policy: SecurityPolicy, head: RequestHead, *, public: bool) -> MuseError | None:
    """The reason to refuse this request, or None.

    Args:
        public: the path is a file of the page, which needs no key.
    """
    return (
        check_target(head)
        or check_method(head)
        or check_host(policy, head)
        or check_site(head)
        or (None if public else check_key(policy, head))
        or check_body_headers(head)
    )


def check_target(head: RequestHead) -> MuseError | None:
    """Only paths: no absolute URLs (for proxies), no `*`, and no `//host` that could become a redirect elsewhere."""
    if head.raw_path.startswith(b"/") and not head.raw_path.startswith(b"//"):
        return None
    return ClientFault("bad_target", "The request target must be a path that starts with one slash.")


def check_method(head: RequestHead) -> MuseError | None:
    if head.method in METHODS:
        return None
    allow = ", ".join(sorted(METHODS))
    return ClientFault("method_not_allowed", "This method is not used here.", status=405, data={"allow": allow})


def check_host(policy: SecurityPolicy, head: RequestHead) -> MuseError | None:
    """Exactly one Host, and one that this server is really reached by. Stops DNS rebinding."""
    hosts = head.values(b"host")
    if len(hosts) == 1:
        host = hosts[0].lower()
        if host in policy.hosts or (policy.any_address and _is_own_literal(host, policy.port)):
            return None
    return ClientFault(
        "forbidden_host",
        "The Host header does not name this server; use http://127.0.0.1 or http://localhost with its port.",
        status=403,
    )


def check_site(head: RequestHead) -> MuseError | None:
    """No requests on behalf of another site's page. Opening the page itself through a link is fine."""
    sites = head.values(b"sec-fetch-site")
    if any(site not in {b"same-origin", b"none"} for site in sites) and not _opens_the_page(head):
        return ClientFault("forbidden_site", "Requests from pages of other sites are refused.", status=403)
    origins = head.values(b"origin")
    if any(origin.lower() != b"http://" + head.values(b"host")[0].lower() for origin in origins):
        return ClientFault("forbidden_origin", "Requests from pages of other origins are refused.", status=403)
    return None


def check_key(policy: SecurityPolicy, head: RequestHead) -> MuseError | None:
    if policy.key is None:
        return None
    given = head.values(b"authorization")
    scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    # compare_digest in each case: the time must not tell how far a guess was right.
    if hmac.compare_digest(token.strip(), policy.key) and scheme.lower() == b"bearer":
        return None
    return ClientFault("invalid_api_key", "A valid key is needed: Authorization: Bearer <key>.", status=401)


def check_body_headers(head: RequestHead) -> MuseError | None:
    """A body must be JSON, in UTF-8, not compressed. A form of another site cannot send that type."""
    if not head.has_body:
        return None
    types = head.values(b"content-type")
    if len(types) != 1 or not JSON_TYPE.fullmatch(types[0]):
        return ClientFault("unsupported_media_type", "The body must be sent as application/json.", status=415)
    if any(value.strip().lower() != b"identity" for value in head.values(b"content-encoding")):
        return ClientFault("unsupported_content_encoding", "Compressed bodies are not taken.", status=415)
    return None


def _opens_the_page(head: RequestHead) -> bool:
    # A link on another site, or a bookmark manager, opens the start page in a tab of its own: nothing is read
    # back by the other site, and the page starts nothing by itself.
    return (
        head.method == "GET"
        and head.raw_path == b"/"
        and head.values(b"sec-fetch-mode") == [b"navigate"]
        and head.values(b"sec-fetch-dest") == [b"document"]
    )


def _is_own_literal(host: bytes, port: int) -> bool:
    name, colon, suffix = host.rpartition(b":")
    if not colon and port == 80:
        name, suffix = host, b"80"
    if suffix != b"%d" % port:
        return False
    try:
        text = name.decode("ascii")
        if text.startswith("[") and text.endswith("]"):
            ipaddress.IPv6Address(text[1:-1])
        else:
            ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True

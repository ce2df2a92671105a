"""Where the server listens, and what stands in the way of it.

Binding is done before anything else starts, so that a taken port is one clear sentence and not a traceback.
`localhost` means both loopback addresses: a browser may try ::1 first, and whoever listens there would get the
user's requests. Everything here is synchronous and quick; it runs before the event loop.
"""

from __future__ import annotations

import errno
import http.client
import ipaddress
import json
import logging
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs
from cattrs import Converter
from cattrs.errors import CattrsError

from actors.front.port_owner import describe_port_owner
from muse.errors import EnvironmentFault

log = logging.getLogger("muse.front")

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 3939
BACKLOG: Final = 256
"""Connections waiting to be accepted; as many as may be open."""
PORT_TRIES: Final = 20
PROBE_S: Final = 0.2
ASK_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Binding:
    """Listening sockets and how to reach them. Whoever gets it closes the sockets (`serve` does)."""

    sockets: tuple[socket.socket, ...]
    port: int
    url: str
    any_address: bool = False
    """Bound to all addresses of the machine."""
    host_names: tuple[str, ...] = ()
    """Names beside the loopback ones under which clients reach it; an IPv6 literal has brackets."""

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


@attrs.frozen
class RunningInstance:
    """A server of ours that answers. The fields of server.json that others need."""

    pid: int
    port: int
    url: str
    instance_id: str


def bind(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, *, key: str | None = None) -> Binding:
    """Listen on `host`:`port`; port 0 picks a free one.

    Raises EnvironmentFault: `port_in_use` (data: port, owner_pid, owner_name, free_port), `port_not_allowed`,
    `bad_port`, `host_not_available`, `key_required` (any address but loopback, without a key).
    """
    if not 0 <= port <= 65535:
        raise EnvironmentFault("bad_port", f"{port} is not a port; ports go from 0 to 65535.")
    name = host.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return _bind_loopback(port)
    address = _resolve(name)
    if not address.is_loopback and not key:
        raise EnvironmentFault(
            "key_required",
            f"Listening on {host} would let other machines use the model. That needs an access key, which cannot be "
            "set yet: use localhost.",
        )
    sock = _listen(str(address), port)
    port = sock.getsockname()[1]
    literal = f"[{address}]" if address.version == 6 else str(address)
    if address.is_unspecified:
        machine = socket.gethostname().lower()
        names = tuple(dict.fromkeys((machine, machine.partition(".")[0] + ".local")))
        return Binding(
            sockets=(sock,), port=port, url=f"http://127.0.0.1:{port}", any_address=True, host_names=_ascii(names)
        )
    names = tuple(dict.fromkeys((literal, literal if name == str(address) else name)))
    return Binding(sockets=(sock,), port=port, url=f"http://{literal}:{port}", host_names=_ascii(names))


def find_running_instance(home: Path, port: int) -> RunningInstance | None:
    """Our own server on this port, started from the same home: its record exists and the server confirms its id.

    Takes at most about a second. A server with a key cannot be asked and counts as not found.
    """
    try:
        record = Converter().structure(json.loads((home / "server.json").read_bytes()), RunningInstance)
        if record.port != port:
            return None
        answer = _ask(record.url)
    except (OSError, ValueError, RecursionError, CattrsError, http.client.HTTPException):
        return None
    try:
        return record if answer["server"]["instance_id"] == record.instance_id else None
    except (TypeError, KeyError, IndexError):
        return None


def free_port_near(port: int) -> int | None:
    """A port that can be offered instead: one of the next, else any."""
    for candidate in (*range(port + 1, min(port + PORT_TRIES, 65536)), 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            try:
                sock.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return sock.getsockname()[1]
    return None


def _bind_loopback(port: int) -> Binding:
    v4 = _listen("127.0.0.1", port)
    port = v4.getsockname()[1]
    sockets = [v4]
    try:
        sockets.append(_listen("::1", port))
    except EnvironmentFault as fault:
        # A machine without IPv6, or somebody else on that side only. 127.0.0.1 is what we print and open.
        log.info("ipv6 loopback not served code=%s", fault.code)
    return Binding(sockets=tuple(sockets), port=port, url=f"http://127.0.0.1:{port}")


def _resolve(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])
    except (OSError, UnicodeError, ValueError) as error:
        raise EnvironmentFault("host_not_available", f"{name} is not a name or address of this machine.") from error


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # BSD systems let a socket on 127.0.0.1 take over from one on all addresses, silently; so ask first.
    if port and _answers(family, address, port):
        raise _port_in_use(port)
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _fault(error, address, port) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        sock.bind((address, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _fault(error, address, port) from error
    return sock


def _answers(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(PROBE_S)
            sock.connect((address, port))
            # A port from the range of outgoing ones can connect to itself.
            return sock.getsockname() != sock.getpeername()
    except OSError:
        return False


def _fault(error: OSError, address: str, port: int) -> EnvironmentFault:
    match error.errno:
        case errno.EADDRINUSE:
            return _port_in_use(port)
        case errno.EACCES | errno.EPERM:
            return EnvironmentFault(
                "port_not_allowed", f"Port {port} is reserved by the system; choose one above 1023 with --port."
            )
        case _:
            reason = error.strerror or "unknown reason"
            return EnvironmentFault("host_not_available", f"Cannot listen on {address}, port {port}: {reason}.")


def _port_in_use(port: int) -> EnvironmentFault:
    owner = describe_port_owner(port)
    free = free_port_near(port)
    by = f" by {owner}" if owner else " by another program"
    offer = f", or start with --port {free}" if free else ""
    return EnvironmentFault(
        "port_in_use",
        f"Port {port} is in use{by}. Stop that program{offer}.",
        data={
            "port": port,
            "owner_pid": owner.pid if owner else None,
            "owner_name": owner.name if owner else None,
            "free_port": free,
        },
    )


def _ascii(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name.isascii())


def _ask(url: str) -> dict[str, dict[str, object]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=ASK_S)
    try:
        connection.request("GET", "/api/runtime")
        return json.loads(connection.getresponse().read(64 * 1024))
    finally:
        connection.close()

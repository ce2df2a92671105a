"""Invariant: the server listens where the user expects it, or says in one sentence why not."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from quart_trio import QuartTrio

from actors.front import binding as binding_module
from actors.front.binding import Binding, RunningInstance, bind, find_running_instance, free_port_near
from actors.front.limits import FrontLimits
from actors.front.port_owner import PortOwner, describe_port_owner
from actors.front.serve import serve
from muse.errors import EnvironmentFault


@pytest.fixture
def bound() -> Iterator[Binding]:
    """A server socket on some port of localhost."""
    binding = bind("localhost", 0)
    yield binding
    binding.close()


def fault_of(host: str, port: int, key: str | None = None) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught:
        bind(host, port, key=key).close()
    return caught.value


def test_localhost_is_both_loopback_addresses(bound: Binding) -> None:
    """Whatever `localhost` resolves to in a browser, it is this server."""
    addresses = [sock.getsockname()[:2] for sock in bound.sockets]
    assert addresses[0] == ("127.0.0.1", bound.port)
    assert addresses[1:] in ([("::1", bound.port)], [])
    assert bound.url == f"http://127.0.0.1:{bound.port}"
    assert not bound.any_address
    for address in addresses:
        socket.create_connection(address).close()


def test_localhost_without_ipv6_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without IPv6 is served on 127.0.0.1 alone."""
    real = socket.socket

    def no_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported")
        return real(family, kind)

    monkeypatch.setattr(binding_module.socket, "socket", no_ipv6)
    binding = bind("localhost", 0)
    assert [sock.getsockname()[0] for sock in binding.sockets] == ["127.0.0.1"]
    binding.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_literal_binds_only_itself(host: str) -> None:
    """Exactly what was asked for."""
    if sys.platform == "darwin" and host != "127.0.0.1":
        pytest.skip("macOS has only 127.0.0.1")
    binding = bind(host, 0)
    assert [sock.getsockname()[0] for sock in binding.sockets] == [host]
    assert binding.url == f"http://{host}:{binding.port}"
    assert host in binding.host_names
    binding.close()


def test_sockets_are_not_handed_to_child_processes(bound: Binding) -> None:
    """A worker that outlives us must not keep the port."""
    assert not any(sock.get_inheritable() for sock in bound.sockets)


def test_port_is_free_again_at_once(bound: Binding) -> None:
    """Also with connections in TIME_WAIT on it."""
    with socket.create_connection(("127.0.0.1", bound.port)):
        connection, _ = bound.sockets[0].accept()
        connection.close()
    bound.close()
    bind("localhost", bound.port).close()


def test_port_in_use_names_its_owner_and_offers_another(bound: Binding) -> None:
    """Everything the user needs in one sentence, and as data for programs."""
    fault = fault_of("localhost", bound.port)
    assert fault.code == "port_in_use"
    assert fault.data["port"] == bound.port
    free = fault.data["free_port"]
    assert isinstance(free, int)
    bind("localhost", free).close()
    assert f"--port {free}" in fault.detail
    if Path("/proc/net/tcp").exists():
        assert fault.data["owner_pid"] == os.getpid()
        assert f"(pid {os.getpid()})" in fault.detail


def test_port_of_another_process_is_recognised() -> None:
    """The owner is looked up across processes."""
    program = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout
        assert child.stdin
        owner = describe_port_owner(int(child.stdout.readline()))
        child.stdin.write("\n")
    if owner is not None:  # without /proc and lsof it cannot be known
        assert owner.pid == child.pid
        assert "ython" in owner.name


def test_owner_of_a_free_port_is_nobody(bound: Binding) -> None:
    """And no error."""
    bound.close()
    assert describe_port_owner(bound.port) is None


def test_owner_from_lsof(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The field output of macOS is read; a failing or missing tool is no error."""
    tool = tmp_path / "lsof"
    tool.write_text("#!/bin/sh\nprintf 'p123\\ncPython Launcher\\nf4\\np456\\ncother\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    from actors.front import port_owner

    assert port_owner._owner_by_lsof(80) == PortOwner(123, "Python Launcher")
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert port_owner._owner_by_lsof(80) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_open_address_needs_a_key(host: str) -> None:
    """Nobody opens the machine by accident."""
    assert fault_of(host, 0).code == "key_required"
    assert fault_of(host, 0, key="").code == "key_required"


def test_all_addresses_with_a_key() -> None:
    """Works, and says so to the Host check."""
    binding = bind("0.0.0.0", 0, key="secret")
    assert binding.any_address
    assert binding.url == f"http://127.0.0.1:{binding.port}"
    binding.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid", "a b", "\udcff", ""])
def test_foreign_host_is_a_clear_fault(host: str) -> None:
    """An address of another machine, or no address at all."""
    assert fault_of(host, 0, key="secret").code in {"host_not_available", "key_required"}


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_impossible_port_is_a_clear_fault(port: int) -> None:
    """Not an OverflowError."""
    assert fault_of("localhost", port).code == "bad_port"


def test_reserved_port_is_a_clear_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binding below 1024 as a user."""

    class Refusing(socket.socket):
        def bind(self, _: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(binding_module.socket, "socket", Refusing)
    fault = fault_of("localhost", 80)
    assert fault.code == "port_not_allowed"
    assert "1023" in fault.detail


def test_no_port_is_offered_twice(bound: Binding) -> None:
    """The offer skips what is taken."""
    near = free_port_near(bound.port - 1)
    assert near != bound.port
    assert isinstance(free_port_near(65535), int)


RECORD = {"pid": 1, "port": 0, "url": "", "instance_id": "abc", "started_at": 1.5}


async def serve_runtime(
    binding: Binding, answer: dict[str, object] | list[object] | str, home: Path, record: object
) -> RunningInstance | None:
    """Serve /api/runtime as a running instance would, and look for it."""
    app = QuartTrio("instance", static_folder=None)

    @app.get("/api/runtime")
    async def runtime() -> dict[str, object] | list[object] | str:
        return answer

    (home / "server.json").write_text(json.dumps(record))
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, app, sockets=binding.sockets, stop=stop, limits=FrontLimits()))
        found = await trio.to_thread.run_sync(find_running_instance, home, binding.port)
        stop.set()
    return found


async def test_own_instance_is_found(bound: Binding, tmp_path: Path) -> None:
    """Its record and its answer agree."""
    record = RECORD | {"port": bound.port, "url": bound.url}
    found = await serve_runtime(bound, {"server": {"instance_id": "abc"}}, tmp_path, record)
    assert found is not None
    assert (found.pid, found.url) == (1, bound.url)


@pytest.mark.parametrize(
    "answer", [{"server": {"instance_id": "other"}}, {"server": {}}, {"server": "abc"}, [], "text", {"server": None}]
)
async def test_foreign_server_on_the_recorded_port_is_not_ours(
    bound: Binding, tmp_path: Path, answer: dict[str, object]
) -> None:
    """A left-over record proves nothing."""
    record = RECORD | {"port": bound.port, "url": bound.url}
    assert await serve_runtime(bound, answer, tmp_path, record) is None


@pytest.mark.parametrize("record", ["", "[]", "{", '{"pid": 1}', '{"pid": "x", "port": 1, "url": 2}', "null"])
def test_broken_record_is_no_instance(tmp_path: Path, record: str) -> None:
    """Cut off, of another version, or not there."""
    (tmp_path / "server.json").write_text(record)
    assert find_running_instance(tmp_path, 1) is None
    assert find_running_instance(tmp_path / "missing", 1) is None


def test_record_of_a_dead_server_is_no_instance(bound: Binding, tmp_path: Path) -> None:
    """Nobody answers there."""
    record = RECORD | {"port": bound.port, "url": bound.url}
    (tmp_path / "server.json").write_text(json.dumps(record))
    bound.close()
    assert find_running_instance(tmp_path, bound.port) is None

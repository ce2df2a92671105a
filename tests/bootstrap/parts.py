"""Small real parts for set-up tests: wheels and npm packages made on the spot, and an index that serves them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """Write a pure wheel with these files; returns its path."""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*content, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in (*content.items(), (f"{info}/RECORD", record.encode())):
            wheel.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), data)
    return path


def lock_line(wheel: Path) -> str:
    """The lock entry that pins this wheel."""
    name, version = wheel.name.split("-")[:2]
    return (
        f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    )


def make_npm_folder(folder: Path, tarball: Path, package: str, files: dict[str, bytes]) -> None:
    """Write package.json and package-lock.json that need one package, packed at `tarball`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, data in {"package.json": json.dumps({"name": package, "version": "1.0.0"}).encode(), **files}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    tarball.write_bytes(buffer.getvalue())
    where = f"file:{tarball}"
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(buffer.getvalue()).digest()).decode()
    folder.mkdir(parents=True, exist_ok=True)
    head = {"name": "page", "version": "1.0.0", "dependencies": {package: where}}
    lock = {
        "name": "page",
        "version": "1.0.0",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {
            "": head,
            f"node_modules/{package}": {"version": "1.0.0", "resolved": where, "integrity": integrity},
        },
    }
    (folder / "package.json").write_text(json.dumps(head))
    (folder / "package-lock.json").write_text(json.dumps(lock))


class StallingIndex:
    """A package index on this machine that can stop in the middle of a wheel.

    With `stall_in` set to a file name, its first half is sent, `stalled` is set, and the rest never comes.
    """

    def __init__(self, wheels: Path) -> None:
        self.stall_in = ""
        self.stalled = threading.Event()
        self._closing = threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self, wheels)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, wheels: Path) -> None:
        """Answer one request of pip: a project's page, or a file."""
        name = request.path.rstrip("/").rpartition("/")[2]
        if request.path.startswith("/simple/"):
            found = [path.name for path in wheels.iterdir() if path.name.startswith(name.replace("-", "_") + "-")]
            body = "".join(f'<a href="/files/{file}">{file}</a>' for file in found).encode()
            self._send(request, body, "text/html")
            return
        body = (wheels / name).read_bytes()
        if name != self.stall_in:
            self._send(request, body, "application/octet-stream")
            return
        self._head(request, len(body), "application/octet-stream")
        request.wfile.write(body[: len(body) // 2])
        request.wfile.flush()
        self.stalled.set()
        self._closing.wait()

    def _send(self, request: BaseHTTPRequestHandler, body: bytes, kind: str) -> None:
        self._head(request, len(body), kind)
        request.wfile.write(body)

    @staticmethod
    def _head(request: BaseHTTPRequestHandler, size: int, kind: str) -> None:
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(size))
        request.end_headers()

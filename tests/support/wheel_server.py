"""A package index with one wheel, in this process, that can be told to behave badly."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import re
import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\x00\x3e\x00" + b"machine code"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def record_digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def make_wheel(path, files, *, release, filler=0, digests=None):
    """Write a wheel; ``filler`` bytes come first, so that the end is not the whole."""
    info = f"vllm-{release}.dist-info"
    contents = {
        "vllm/filler": bytes(filler),
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={(digests or {}).get(name, record_digest(content))},{len(content)}\n"
        for name, content in contents.items()
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")


@dataclass
class WheelServer:
    """What it serves, how, and what it was asked.

    Attributes:
        mode: ``ranges``, ``whole`` (ignores the header), ``truncated`` (breaks off every
            partial answer) or ``refused`` (416).
        redirect: the wheel is reached over a redirect.
        login: ``user:password`` that every request must bring.
        asked: method, path and range of each request.
        sent: bytes of bodies of the wheel.
    """

    wheel: Path
    mode: str = "ranges"
    redirect: bool = False
    login: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    sent: int = 0
    port: int = 0

    @property
    def index_url(self):
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self.port}/simple/"

    def ranges(self):
        return [asked for _method, _path, asked in self.asked if asked]


def _handler(server):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args):
            pass

        def _answer(self, status, body=b"", headers=()):
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self):
            self._answer(405)

        def do_GET(self):
            asked = self.headers.get("Range", "")
            server.asked.append(("GET", self.path, asked))
            if server.login:
                wanted = "Basic " + base64.b64encode(server.login.encode()).decode()
                if self.headers.get("Authorization") != wanted:
                    self._answer(401, headers=[("WWW-Authenticate", "Basic")])
                    return
            if self.path == "/simple/vllm/":
                name = server.wheel.name
                page = f'<a href="/files/{name}">{name}</a>'.encode()
                self._answer(200, page, [("Content-Type", "text/html")])
            elif self.path.startswith("/files/") and server.redirect:
                self._answer(302, headers=[("Location", f"/elsewhere/{server.wheel.name}")])
            elif self.path.startswith(("/files/", "/elsewhere/")):
                self._wheel(asked)
            else:
                self._answer(404)

        def _wheel(self, asked):
            content = server.wheel.read_bytes()
            if not asked or server.mode == "whole":
                server.sent += len(content)
                # A client that has seen enough leaves.
                with contextlib.suppress(ConnectionError):
                    self._answer(200, content)
                return
            if server.mode == "refused":
                self._answer(416)
                return
            first, last = _RANGE.fullmatch(asked).groups()
            start = int(first) if first else max(0, len(content) - int(last))
            stop = min(int(last) + 1 if first and last else len(content), len(content))
            piece = content[start:stop]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(piece)))
            self.end_headers()
            if server.mode == "truncated":
                piece = piece[: len(piece) // 2]
                self.close_connection = True
            server.sent += len(piece)
            self.wfile.write(piece)

    return Handler


@contextlib.contextmanager
def serving(wheel):
    """Serve ``wheel`` on a port of the system's choice until the end of the block."""
    server = WheelServer(wheel)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(server)) as listener:
        server.port = listener.server_port
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()

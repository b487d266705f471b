"""A real HTTP server for one file, which can break off, ignore ranges, lie, and be a package
index.
"""

from __future__ import annotations

import hashlib
import re
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Self


@dataclass
class Behaviour:
    """How the server treats requests for a file."""

    ranges: bool = True
    break_after: list[int] = field(
        default_factory=list
    )  # bytes of each answer in turn, then whole ones
    length: int | None = None  # what Content-Length says instead of the truth
    lie_start: int | None = None  # what Content-Range says instead of the truth
    status: int = 200
    too_much: bytes = b""  # sent after the file, without Content-Length
    redirect: str | None = None


class FileServer:
    """Serves `files` by path; notes each request as (path, Range)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.behaviour: dict[str, Behaviour] = {}
        self.requests: list[tuple[str, str | None]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, path: str, body: bytes, **behaviour: object) -> str:
        """Serve a file; returns its address."""
        self.files[path] = body
        self.behaviour[path] = Behaviour(**behaviour)
        return self.url + path

    def wheel(self, distribution: str, version: str, members: dict[str, bytes]) -> None:
        """Offer a package in the index at `/simple/`."""
        name = distribution.replace("-", "_")
        body = BytesIO()
        with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
            info = f"{name}-{version}.dist-info"
            metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
            wheel = (
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            for path, data in {
                **members,
                f"{info}/METADATA": metadata,
                f"{info}/WHEEL": wheel,
                f"{info}/RECORD": "",
            }.items():
                archive.writestr(path, data)
        self.package(distribution, f"{name}-{version}-py3-none-any.whl", body.getvalue())

    def package(self, distribution: str, filename: str, body: bytes) -> None:
        """Offer any file as a package."""
        self.serve(f"/files/{filename}", body)
        digest = hashlib.sha256(body).hexdigest()
        page = f'<!DOCTYPE html><html><body><a href="/files/{filename}#sha256={digest}">{filename}</a></body></html>'
        self.serve(f"/simple/{distribution}/", page.encode())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                server.requests.append((self.path, self.headers.get("Range")))
                if self.path not in server.files:
                    self.send_error(404)
                    return
                self.answer(server.files[self.path], server.behaviour[self.path])

            def answer(self, body: bytes, how: Behaviour) -> None:
                if how.redirect:
                    self.send_response(302)
                    self.send_header("Location", how.redirect)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if how.status != 200:
                    self.send_error(how.status)
                    return
                start = self.start(body, how)
                rest = body[start:]
                self.send_response(206 if start else 200)
                self.send_header(
                    "Content-Type",
                    "text/html" if self.path.endswith("/") else "application/octet-stream",
                )
                if start:
                    said = start if how.lie_start is None else how.lie_start
                    self.send_header("Content-Range", f"bytes {said}-{len(body) - 1}/{len(body)}")
                if how.too_much:
                    self.send_header("Connection", "close")
                    self.close_connection = True
                else:
                    self.send_header(
                        "Content-Length", str(len(rest) if how.length is None else how.length)
                    )
                self.end_headers()
                cut = how.break_after.pop(0) if how.break_after else None
                self.wfile.write(rest[:cut] + how.too_much)
                if cut is not None:
                    self.close_connection = True

            def start(self, body: bytes, how: Behaviour) -> int:
                """The first byte, by the request's range."""
                match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                if not match or not how.ranges:
                    return 0
                return int(match[1])

        return Handler

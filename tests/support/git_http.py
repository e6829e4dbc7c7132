"""Git over HTTP on loopback: git's own http-backend behind a small server that can be told to misbehave."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent, without the body."""

    method: str
    path: str
    authorization: str | None


@dataclass
class GitHttp:
    """A server for the repositories below `root`. Change its fields while it runs."""

    root: Path
    url: str = ""
    user: str | None = None
    password: str | None = None
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request], tuple[int, dict[str, str]] | None] = lambda _: None
    """Answer in place of git: a status and headers, or None to let git answer."""
    page: bytes = b""
    """Answered with 200 in place of git, as a sick server or a proxy in front of it does."""
    hold: Callable[[Request], bool] = lambda _: False
    """Whether to stop in the middle of git's answer, until `release` is called."""
    large: dict[str, bytes] = field(default_factory=dict)
    """What is kept in LFS, by id."""
    held: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let held answers go on."""
        self.hold = lambda _: False
        self._go.set()

    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [request.path for request in self.requests]

    def allows(self, request: Request) -> bool:
        """Whether the request carries the right name and password."""
        if self.user is None:
            return True
        wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return request.authorization == f"Basic {wanted}"


@contextlib.contextmanager
def serving(root: Path, *, user: str | None = None, password: str | None = None) -> Iterator[GitHttp]:
    """Serve the repositories below `root` while the block runs."""
    state = GitHttp(root, user=user, password=password)

    class Handler(_Handler):
        git = state

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.release()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    git: ClassVar[GitHttp]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self._body()
        request = Request(self.command, self.path, self.headers.get("Authorization"))
        self.git.requests.append(request)
        other = self.git.answer(request)
        if other is not None:
            self._short(*other)
        elif not self.git.allows(request):
            self._short(401, {"WWW-Authenticate": 'Basic realm="git"'})
        elif self.git.page:
            kind = "html" if self.git.page.startswith(b"<") else "x-git-upload-pack-advertisement"
            self._content(self.git.page, "text/html" if kind == "html" else f"application/{kind}")
        elif "/info/lfs/" in self.path:
            self._large(body)
        else:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._backend(request, body)

    def _large(self, body: bytes) -> None:
        """The batch interface of LFS, and the objects themselves."""
        name = self.path.rpartition("/")[2]
        if self.command == "PUT":
            self.git.large[name] = body
            self._short(200, {})
        elif self.command == "GET":
            self._content(self.git.large[name], "application/octet-stream")
        else:
            asked = json.loads(body)
            base = f"{self.git.url}{self.path.partition('/info/lfs/')[0]}/info/lfs/objects/"
            wanted = [
                {**item, "authenticated": False, "actions": {asked["operation"]: {"href": base + item["oid"]}}}
                for item in asked["objects"]
                if (item["oid"] in self.git.large) == (asked["operation"] == "download")
            ]
            answer = {"transfer": "basic", "objects": wanted}
            self._content(json.dumps(answer).encode(), "application/vnd.git-lfs+json")

    def _content(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _short(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _backend(self, request: Request, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_USER": self.git.user or "anybody",
        }
        done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [line.decode().split(": ", 1) for line in head.split(b"\r\n") if line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self.send_response(status)
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.git.hold(request):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.git.held.set()
            self.git._go.wait(60)
            content = content[len(content) // 2 :]
        self.wfile.write(content)

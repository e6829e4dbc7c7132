"""Handing a credential to one git command: over a private socket, to nobody else, for one server only.

The credential is never in a URL, a file, an argument or an environment. Git asks our helper, the helper asks us, and
we answer only a process that descends from the shell which runs the command, only about the server that the clone URL
names, and only until the command has ended: then the socket is gone, so there is nothing to replay.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from agentsmith.config.lacking import demand
from agentsmith.domain.forge import GitCredential
from agentsmith.git import credential_helper
from agentsmith.git.errors import CredentialRefused, RepositoryGone
from agentsmith.guard import program as guard

log = structlog.get_logger()

_LIMIT: Final = 64 * 1024
_PORTS: Final = {"http": 80, "https": 443}
_SCP_LIKE: Final = "ssh"


@dataclass(frozen=True, slots=True)
class Address:
    """The server that a URL names: all that decides whether it may have the credential."""

    protocol: str
    host: str
    port: int | None

    @classmethod
    def of(cls, url: str) -> Address:
        """Read a clone URL: `https://…`, `ssh://…`, `git@host:path`, `file://…`, or a path."""
        if any(c.isspace() or not c.isprintable() for c in url) or url.startswith("-"):
            raise RepositoryGone("the address of the repository holds characters that no address has")
        if "://" not in url:
            if ":" in url.partition("/")[0]:
                return cls(_SCP_LIKE, url.partition(":")[0].rpartition("@")[2].lower(), None)
            return cls("file", "", None)
        try:
            parts = urlsplit(url)
            return cls(
                parts.scheme.lower(), (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme.lower())
            )
        except ValueError as error:
            raise RepositoryGone(f"the address of the repository is not valid: {error}") from None

    def is_asked_for(self, protocol: str, host: str) -> bool:
        """Whether git's question is about this server."""
        try:
            asked = Address.of(f"{protocol}://{host}")
        except RepositoryGone:
            return False
        return bool(self.host) and asked == self


@contextlib.asynccontextmanager
async def courier(
    credential: GitCredential | None, address: Address, *, ancestor: int
) -> AsyncIterator[tuple[Sequence[tuple[str, str]], Sequence[str]]]:
    """Serve the credential while the block runs; yields git's configuration for it, and what to keep out of texts."""
    if credential is None:
        yield (), ()
        return
    demand(credential.password)
    if any(c in credential.username + credential.password for c in "\r\n\0"):
        raise CredentialRefused("the credential of this repository holds a line break, which git cannot use")
    folder = Path(tempfile.mkdtemp(prefix="agentsmith-"))  # mode 700, and short enough for a socket's path
    path = folder / "s"
    answers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        answers.add(task)
        task.add_done_callback(answers.discard)
        try:
            writer.write(await _reply(reader, writer, credential, address, ancestor))
            await writer.drain()
        except (OSError, ValueError):
            pass  # the asker is gone, or asked nonsense; it gets nothing
        finally:
            writer.close()

    try:
        server = await asyncio.start_unix_server(answer, path, limit=_LIMIT)
        command = shlex.join((sys.executable, "-I", "-S", credential_helper.__file__, str(path)))
        try:
            yield (("credential.helper", "!" + command),), (credential.password,)
        finally:
            server.close()
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _reply(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    credential: GitCredential,
    address: Address,
    ancestor: int,
) -> bytes:
    asker = _peer(writer.get_extra_info("socket"))
    if not await asyncio.to_thread(_descends, asker, ancestor):
        log.warning("a process that is not our git asked for a credential and got none", pid=asker)
        return b""
    async with asyncio.timeout(30):
        question = json.loads(await reader.readline())
    if not isinstance(question, dict) or question.get("op") != "get":
        return b""  # git also tells helpers to store and to forget
    if not address.is_asked_for(str(question.get("protocol")), str(question.get("host"))):
        log.warning("git asked for a credential for another server and got none", host=str(question.get("host")))
        return b"quit=1\n"
    return f"username={credential.username}\npassword={credential.password}\n".encode()


def _peer(channel: socket.socket) -> int:
    """The process at the other end."""
    if sys.platform == "darwin":
        return int(channel.getsockopt(0, 2))  # SOL_LOCAL, LOCAL_PEERPID
    pid: int = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]
    return pid


def _descends(pid: int, ancestor: int) -> bool:
    table = guard.process_table()
    seen: set[int] = set()
    while pid in table and pid not in seen:
        if pid == ancestor:
            return True
        seen.add(pid)
        pid = table[pid][0]
    return False

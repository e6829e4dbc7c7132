"""What the embedded server has on disk: its folder, its socket's folder, its configuration, log and locks.

Two locks, both `flock`, both free again the moment their last holder dies:

- `server.lock` is held by the keeper, the one process that may start and stop the server;
- `server.pid` is handed to the server at its start and held by it (and by what it forks) to its last breath.
  A new keeper gets it before it starts anything, so two servers never share the folder, not even while one is
  dying.

Nothing here starts or awaits anything.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentsmith.domain.errors import StoreRefused
from agentsmith.store.server_binary import ServerUnavailable

_LONGEST_SOCKET_PATH = 100  # bytes; macOS allows 103, Linux 107
_LARGEST_LOG = 1024 * 1024
_LEAST_ROOM = 1024 * 1024
"""Bytes that must fit for a start to be worth it."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOG_LINE_START = re.compile(r"^\d+:\w+ \d+ \w+ \d+ [\d:.]+ \S ")
_DAMAGED = re.compile(r"reading the append only file|manifest|AOF.*(doesn't exist|format)", re.IGNORECASE)

_SETTINGS = """\
# Written at every start; changes made here are lost.
port 0
unixsocket {socket}
unixsocketperm 700
dir {folder}
daemonize no
appendonly yes
# Anything weaker can lose acknowledged writes on kill -9.
appendfsync always
aof-load-truncated yes
# Plain commands throughout: any Redis or Valkey configured later, and the repair tools, can read them.
aof-use-rdb-preamble no
save ""
maxmemory 0
maxmemory-policy noeviction
"""


class ServerHome:
    """The places of one data directory's server."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = Path(os.path.realpath(data_dir.expanduser()))
        self.folder = self.data_dir / "redis"
        self.configuration = self.folder / "server.conf"
        self.log = self.folder / "server.log"
        self._keeper_lock = self.folder / "server.lock"
        self._server_lock = self.folder / "server.pid"
        self._link = self.folder / "redis.sock"

    def prepare(self) -> None:
        """Make the folders, private whatever the umask; ServerUnavailable when they cannot be ours."""
        try:
            if not self.data_dir.exists():
                _make_private(self.data_dir)
            _make_private(self.folder)
            os.close(_open_private(self._keeper_lock, os.O_RDWR))
        except OSError as error:
            raise ServerUnavailable(
                f"The data directory {self.data_dir} cannot be used: {error.strerror} ({error.filename}). "
                "Name a directory that this user can write to."
            ) from error

    def lack_of_room(self) -> StoreRefused | None:
        """Whether the disk is full: where, and how much is free. None while the server can write there."""
        there = next(folder for folder in (self.folder, *self.folder.parents) if folder.is_dir())
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                os.posix_fallocate(file.fileno(), 0, _LEAST_ROOM)
        except OSError as error:
            if error.errno in _FULL:
                free = shutil.disk_usage(there).free
                lack = f"no room for our own Redis in {there}: {error.strerror}, {free} bytes are free"
                return StoreRefused(lack, remedy="make room there")
        return None

    def lock_as_keeper(self) -> int | None:
        """Return the held lock, to be closed to let go, or None while another process is the keeper."""
        return self._lock(self._keeper_lock)

    def lock_for_server(self) -> int | None:
        """Return the lock to hand to a new server, or None while an older one lives. Only for the keeper."""
        lock = self._lock(self._server_lock)
        if lock is not None:
            os.ftruncate(lock, 0)  # from here on a pid in a locked file is the holder's
        return lock

    def note_server(self, lock: int, pid: int) -> None:
        """Write down who holds the server's lock: the leader of a process group."""
        os.pwrite(lock, f"{pid} {_pid_namespace()}\n".encode(), 0)

    def kill_leftover(self) -> int | None:
        """Kill the server that an earlier keeper left, and return its pid if known. Only for the keeper.

        As long as the lock is held some member of the noted process group lives, so its number cannot have
        gone to anyone else; unless it was noted in another container, where it means another process.
        """
        pid, _, namespace = self._server_lock.read_text().strip().partition(" ")
        if not pid.isdigit():
            return None
        if namespace == _pid_namespace():
            with suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)
        return int(pid)

    def published_socket(self) -> Path | None:
        """Return where the keeper put the socket, whose environment may differ from ours."""
        try:
            socket = self._link.readlink()
        except OSError:
            return None
        # A copied data directory brings along a link to the socket of the original; and a folder that was
        # cleaned away may have come back as somebody else's.
        ours = socket.parent.name == self._private_name and not _why_not_private(socket.parent)
        return socket if ours else None

    def publish_socket(self) -> Path:
        """Choose the socket's path, make its private folder, tell other processes. Only for the keeper."""
        socket = self._choose_socket()
        fresh = self._link.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(socket)
        fresh.replace(self._link)
        return socket

    def remove_socket_folder(self) -> None:
        """Leave no litter in the temp directory. Only for the keeper, after the server's end."""
        if socket := self.published_socket():
            with suppress(OSError):
                socket.unlink(missing_ok=True)
                socket.parent.rmdir()

    def write_configuration(self, socket: Path) -> None:
        """Write what the server is to read at its start."""
        text = _SETTINGS.format(socket=_quoted(socket), folder=_quoted(self.folder))
        file = _open_private(self.configuration, os.O_WRONLY | os.O_TRUNC)
        with open(file, "w", encoding="ascii") as configuration:
            configuration.write(text)

    def open_log(self) -> int:
        """Return the log opened for appending; a large one is first put aside in place of the one before."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > _LARGEST_LOG:
                self.log.replace(self.log.with_suffix(".log.1"))
        return _open_private(self.log, os.O_WRONLY | os.O_APPEND)

    def last_words(self, since: int) -> str:
        """Return the last line that the server logged after this offset."""
        with self.log.open("rb") as log:
            log.seek(since)
            lines = log.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return _LOG_LINE_START.sub("", said[-1]) if said else ""

    def remedy(self, last_words: str, binary: Path) -> str:
        """Say what a person can do about a server that ended with these words."""
        if not _DAMAGED.search(last_words):
            return f"The whole story is in {self.log}."
        parts = self.folder / "appendonlydir"
        damaged = parts / "appendonly.aof.manifest" if parts.is_dir() else self.folder / "appendonly.aof"
        # Called by this name, the server program is the repair tool.
        check = binary.name.replace("server", "check-aof")
        repair = f"exec -a {check} {shlex.quote(str(binary))} --fix {shlex.quote(str(damaged))}"
        return (
            f"Restore {self.folder} from a backup, or copy it and cut the damaged end off with "
            f"bash -c {shlex.quote(repair)}, or move it away to start empty."
        )

    @property
    def _private_name(self) -> str:
        return f"agentsmith-{os.geteuid()}-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]}"

    def _lock(self, path: Path) -> int | None:
        # Never inherited by accident (Python opens with O_CLOEXEC), and let go by closing alone: LOCK_UN
        # would also take it from the server that it was handed to.
        try:
            file = _open_private(path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                os.close(file)
                raise
        except BlockingIOError:
            return None
        except OSError as error:
            raise ServerUnavailable(
                f"{path} cannot be locked: {error.strerror}. "
                "The data directory must stay where it is, on a local disk that this user can write to."
            ) from error
        return file

    def _choose_socket(self) -> Path:
        for base in self._socket_bases():
            socket = base / self._private_name / "redis.sock"
            if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
                continue
            try:
                socket.parent.mkdir(mode=0o700)
                socket.parent.chmod(0o700)
            except FileExistsError:
                pass  # ours from an earlier start, or a squatter's
            except OSError:
                continue
            if why := _why_not_private(socket.parent):
                raise ServerUnavailable(
                    f"The directory for the server's socket, {socket.parent}, {why}, so others could pose as "
                    "the server. Remove it, or set XDG_RUNTIME_DIR to a directory of your own."
                )
            return socket
        raise ServerUnavailable(
            "No directory was found for the server's socket: XDG_RUNTIME_DIR and the temp directory cannot "
            "be written to, or their paths are too long. Set XDG_RUNTIME_DIR to a short path of your own."
        )

    def _socket_bases(self) -> Iterator[Path]:
        # Other daemons may be waiting for the server to come back right where it was.
        if published := self.published_socket():
            yield published.parent.parent
        if runtime := os.environ.get("XDG_RUNTIME_DIR"):
            yield Path(runtime).absolute()
        yield Path(tempfile.gettempdir())
        yield Path("/tmp")  # noqa: S108 - a private folder in it, checked


def _why_not_private(folder: Path) -> str | None:
    try:
        found = folder.lstat()
    except OSError:
        return None  # nothing there yet
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}"
    if stat.S_IMODE(found.st_mode) != 0o700:
        return f"has mode {stat.S_IMODE(found.st_mode):o} instead of 700"
    return None


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # whatever the umask left of it


def _open_private(path: Path, flags: int) -> int:
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(file, 0o600)
    return file


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "the only one"


def _quoted(path: Path) -> str:
    plain = set(range(0x20, 0x7F)) - {ord('"'), ord("\\")}
    return '"' + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(path)) + '"'

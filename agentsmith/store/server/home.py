"""What the embedded server has on disk: its folder, its socket's folder, its configuration, log and locks.

The socket lies in a folder of its own inside the data directory, where everybody who shares that directory finds it
whatever their /tmp is (a systemd unit may have one of its own); elsewhere only if that path is too long for a socket.
A link in the data directory says where.

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
import socket as sockets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentsmith.domain.errors import StoreRefused
from agentsmith.store.server.binary import ServerUnavailable

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
        lock = self._lock(self._keeper_lock)
        if lock is not None:
            with suppress(OSError):  # a full disk: then nobody can see who holds it
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"process {os.getpid()} on {sockets.gethostname()}\n".encode(), 0)
        return lock

    def keeper(self) -> str | None:
        """Who is the keeper, in words; None while nobody is. ServerUnavailable when this user may not look."""
        try:
            with self._keeper_lock.open(encoding="utf-8", errors="replace") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return file.readline().strip() or "another process"
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ServerUnavailable(
                f"Whether a Redis server runs in {self.data_dir} cannot be seen: {error.strerror} "
                f"({self._keeper_lock}). Run this as the user whom the data directory belongs to, or as root."
            ) from error
        return None

    def out_of_reach(self, keeper: str) -> ServerUnavailable:
        """What to say when there is a keeper, and its server does not answer."""
        at = self.published_socket()
        held = f"The Redis server of {self.data_dir} is kept by {keeper}, which holds {self._keeper_lock}"
        if at is None:
            return ServerUnavailable(
                f"{held}, but where its socket is cannot be seen. It may run as another user, or be just starting: "
                "run this as the user who started it, or try again in a moment."
            )
        if not at.parent.exists():
            return ServerUnavailable(
                f"{held}, but its socket {at} is not to be seen from here. That process probably has a /tmp of its "
                "own (PrivateTmp of a systemd unit) or runs in another container: run this there, or start that "
                "process again, which puts the socket into the data directory if that has a short path."
            )
        return ServerUnavailable(
            f"{held}, but nobody answers at its socket {at}. Processes that share a data directory must run as the "
            "same user, on the same machine or in the same container. If that one hangs, stop it and start it again; "
            f"what the server says is in {self.log}."
        )

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
        if not (pid.isascii() and pid.isdecimal()):
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
        owner = next((uid for uid in self._owners() if socket.parent.name == self._private_name(uid)), None)
        return socket if owner is not None and not _why_not_private(socket.parent, owner) else None

    def _owners(self) -> Iterator[int]:
        """Whose server we talk to: our own, and as root, who may look everywhere, that of the directory's owner."""
        yield os.geteuid()
        if os.geteuid() == 0:
            with suppress(OSError):
                yield self.folder.stat().st_uid

    def publish_socket(self, known: Path | None = None) -> Path:
        """Choose the socket's path, make its private folder, tell other processes. Only for the keeper.

        `known` is where this process and perhaps others expect it.
        """
        socket = self._choose_socket(known)
        fresh = self._link.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(socket)
        fresh.replace(self._link)
        return socket

    def remove_socket_folder(self) -> None:
        """Leave no litter. Only for the keeper, after the server's end."""
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

    def _private_name(self, owner: int) -> str:
        # Processes of other releases look for this very name.
        return f"agentsmith-{owner}-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]}"

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

    def _choose_socket(self, known: Path | None) -> Path:
        for base in self._socket_bases(known):
            socket = base / self._private_name(os.geteuid()) / "redis.sock"
            if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
                continue
            try:
                socket.parent.mkdir(mode=0o700)
                socket.parent.chmod(0o700)
            except FileExistsError:
                pass  # ours from an earlier start, or a squatter's
            except OSError:
                continue
            if why := _why_not_private(socket.parent, os.geteuid()):
                raise ServerUnavailable(
                    f"The directory for the server's socket, {socket.parent}, {why}, so others could pose as "
                    "the server. Remove it, or set XDG_RUNTIME_DIR to a directory of your own."
                )
            if _takes_sockets(socket.parent):
                return socket
            with suppress(OSError):
                socket.parent.rmdir()
        raise ServerUnavailable(
            f"No directory was found for the server's socket: {self.folder}, XDG_RUNTIME_DIR and the temp directory "
            "cannot be written to, take no sockets, or their paths are too long. Set data_dir or XDG_RUNTIME_DIR to a "
            "short path of your own."
        )

    def _socket_bases(self, known: Path | None) -> Iterator[Path]:
        if known is not None:
            yield known.parent.parent
        # Other daemons may be waiting for the server to come back right where it was. Whoever stops in order takes
        # the folder away; then a place that not everybody reaches, as earlier releases chose it, is left.
        published = self.published_socket()
        if published is not None and published.parent.is_dir():
            yield published.parent.parent
        yield self.folder
        if published is not None:
            yield published.parent.parent
        for variable in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):  # of a systemd unit, and of a session
            if runtime := os.environ.get(variable, "").partition(":")[0]:
                yield Path(runtime).absolute()
        yield Path(tempfile.gettempdir())
        yield Path("/tmp")  # noqa: S108 - a private folder in it, checked


def _takes_sockets(folder: Path) -> bool:
    """Some shared folders of virtual machines take files and no sockets."""
    trial = folder / f"try-{os.getpid()}"
    with sockets.socket(sockets.AF_UNIX) as socket, suppress(OSError):
        try:
            socket.bind(str(trial))
        finally:
            trial.unlink(missing_ok=True)
        return True
    return False


def _why_not_private(folder: Path, owner: int) -> str | None:
    try:
        found = folder.lstat()
    except OSError:
        return None  # nothing there yet
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_uid != owner:
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

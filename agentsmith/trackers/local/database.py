"""The SQLite file of the local tracker: its schema, its transactions, and what its failures mean.

Every call runs on one worker thread, so that the event loop never waits for a disk. Several processes may use the
file at once: writers queue for SQLite's write lock, readers never wait. Knows nothing of labels or statuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from agentsmith.boottime import boottime
from agentsmith.domain.errors import AgentSmithError, ConfigError, TrackerUnavailable

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x41534D54  # "ASMT": tells our file from another program's database
PATIENCE: Final = 30.0  # how long a call without a deadline waits for other writers
_PAUSE: Final = 0.005  # between two tries where SQLite does not do the waiting itself

_SCHEMA: Final = """
CREATE TABLE projects (
  name TEXT PRIMARY KEY,
  last_number INTEGER NOT NULL  -- numbers are never given twice, not even after a ticket is deleted
) WITHOUT ROWID;
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT NOT NULL REFERENCES projects (name),
  number INTEGER NOT NULL,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
  revision INTEGER NOT NULL,
  author TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (project, number)
);
CREATE TABLE labels (
  ticket INTEGER NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
  folded TEXT NOT NULL,  -- the name without case: what labels are compared by
  name TEXT NOT NULL,
  PRIMARY KEY (ticket, folded)
) WITHOUT ROWID;
CREATE INDEX tickets_by_label ON labels (folded, ticket);
CREATE TABLE comments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ticket INTEGER NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
  author TEXT NOT NULL,
  bot INTEGER NOT NULL,
  body TEXT NOT NULL,
  memo TEXT,  -- set on the sticky comment only; people have no way to write it
  created_at TEXT NOT NULL,
  edited_at TEXT
);
CREATE INDEX comments_by_ticket ON comments (ticket);
CREATE UNIQUE INDEX one_sticky ON comments (ticket) WHERE memo IS NOT NULL;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ticket INTEGER NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
  revision INTEGER NOT NULL,  -- what was done at once has the same one
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  bot INTEGER NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  run TEXT,
  fence INTEGER
);
CREATE INDEX events_by_ticket ON events (ticket, kind);
CREATE TABLE links (
  ticket INTEGER NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
  blocker INTEGER NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
  PRIMARY KEY (ticket, blocker)
) WITHOUT ROWID;
"""


class Database:
    """One SQLite file, opened at the first call. Raises ConfigError for a file that cannot serve as one."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # also keeps a path named ":memory:" from being special
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentsmith-local")
        self._connection: sqlite3.Connection | None = None
        self._inode = (0, 0)
        self._closed = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds in one consistent snapshot; it may be called again, so it only reads."""
        return await self._run(partial(self._transact, "BEGIN", work, boottime() + PATIENCE, None))

    async def write(self, work: Callable[[sqlite3.Connection], T], *, deadline: float | None = None) -> T:
        """Do `work` in one transaction: all of it or nothing, begun and ended before the deadline (T11).

        TrackerUnavailable means that nothing was written, but for a disk that failed during the commit itself.
        """
        give_up = boottime() + PATIENCE
        if deadline is not None:
            give_up = min(give_up, deadline)
        return await self._run(partial(self._transact, "BEGIN IMMEDIATE", work, give_up, deadline))

    async def open(self) -> None:
        """Open the file now, and make it if it is not there: a start-up check."""
        await self._run(partial(self._opened, boottime() + PATIENCE))

    async def aclose(self) -> None:
        """Close the file once the calls under way are done; later calls fail, but for this one."""
        if not self._closed:
            self._closed = True
            await self._run(self._close)
            self._worker.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, call)

    # --- from here on: on the worker thread -----------------------------------------------------------------

    def _transact(
        self,
        begin: str,
        work: Callable[[sqlite3.Connection], T],
        give_up: float,
        deadline: float | None,
    ) -> T:
        while True:
            connection = self._opened(give_up)
            try:
                # SQLite waits for the lock by itself, but never beyond the moment at which we give up.
                wait = max(0, int((give_up - boottime()) * 1000))
                connection.execute(f"PRAGMA busy_timeout = {wait}")
                connection.execute(begin)
                result = work(connection)
                self._in_time(deadline)  # nothing is written for others to see before the commit
                connection.execute("COMMIT")
                return result
            except sqlite3.Error as error:
                if not _busy(error) or boottime() >= give_up:
                    raise self._unavailable(error) from error
                time.sleep(_PAUSE)
            finally:
                if connection.in_transaction:
                    connection.rollback()

    def _in_time(self, deadline: float | None) -> None:
        if deadline is not None and boottime() >= deadline:
            raise TrackerUnavailable(f"the deadline passed before {self.path} could be written")

    def _opened(self, give_up: float) -> sqlite3.Connection:
        if self._connection is not None:
            if self._same_file():
                return self._connection
            self._close()  # replaced, by a restored backup for example: go on with the file that is there
        while True:
            try:
                self._connection = self._connect(max(0.0, give_up - boottime()))
                return self._connection
            except sqlite3.Error as error:
                # Changing to WAL does not wait by itself when several processes open a new file at once.
                if not _busy(error) or boottime() >= give_up:
                    raise self._unusable(error) from error
                time.sleep(_PAUSE)

    def _same_file(self) -> bool:
        try:
            found = self.path.stat()
        except OSError as error:
            # Making a new, empty file here would turn an accident into "no tickets" (P9).
            raise TrackerUnavailable(
                f"{self.path} was moved or deleted while in use ({error.strerror});"
                " put it back, or restart agentsmith to begin with an empty one"
            ) from error
        return (found.st_dev, found.st_ino) == self._inode

    def _connect(self, patience: float) -> sqlite3.Connection:
        try:
            self._check_place()
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        connection = sqlite3.connect(self.path, timeout=patience, isolation_level=None)
        try:
            # A file that another program damaged should still be readable as far as possible.
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")  # also shows at once whether the file can be written
            self._prepare(connection)
            connection.execute("COMMIT")
            found = self.path.stat()
            self._inode = (found.st_dev, found.st_ino)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_place(self) -> None:
        if self.path.is_dir():
            raise ConfigError(f"{self.path} is a directory; name a file for the tickets")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Tickets are nobody else's: SQLite makes its other files with the mode of this one.
        if not self.path.exists():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        elif (mode := self.path.stat().st_mode) & 0o007:  # as former releases made it
            with contextlib.suppress(OSError):
                self.path.chmod(stat.S_IMODE(mode) & ~0o007)
        if self.path.exists() and not os.access(self.path, os.W_OK):
            # SQLite would open it for reading only, and fail at the first label.
            raise self._unwritable("the file is read-only")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = _pragma(connection, "user_version")
        application = _pragma(connection, "application_id")
        empty = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        if application != APPLICATION_ID and not (empty and version == application == 0):
            raise ConfigError(f"{self.path} is a database of another program; name another file")
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{self.path} was written by a newer agentsmith (format {version}; this release reads up to"
                f" {SCHEMA_VERSION}); upgrade agentsmith, or name another file"
            )
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _unusable(self, error: sqlite3.Error) -> AgentSmithError:
        """Why the file could not be opened: a mistake to correct, unless it may pass."""
        code = _code(error)
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return ConfigError(f"{self.path} is not a ticket file, or is damaged ({error}); {_RESTORE}")
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return self._unwritable(str(error))
        return self._unavailable(error)

    def _unwritable(self, why: str) -> ConfigError:
        return ConfigError(
            f"cannot write {self.path} ({why}); check the rights of user {os.geteuid()} on the file and its folder,"
            " or name another file"
        )

    def _unavailable(self, error: sqlite3.Error) -> TrackerUnavailable:
        remedy = _REMEDIES.get(_code(error), "look at the disk and the file")
        return TrackerUnavailable(f"cannot use {self.path} ({error}); {remedy}")


_RESTORE: Final = "restore it from a backup, or move it away to begin with an empty one"
_REMEDIES: Final = {
    sqlite3.SQLITE_BUSY: "another program holds it locked; end that one",
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_READONLY: "the file or its disk is read-only; make it writable",
    sqlite3.SQLITE_CORRUPT: _RESTORE,
    sqlite3.SQLITE_NOTADB: _RESTORE,
}


def _code(error: sqlite3.Error) -> int:
    """The primary result code; the extended ones only say more precisely where."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _busy(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_BUSY


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

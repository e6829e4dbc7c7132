"""The folders of a run, and what stands in them: the ticket's workspace, which the next attempt finds again, and the
run's own.

    workspaces/<slug>/work     where steps run; the checkout
    workspaces/<slug>/home     their private home
    workspaces/<slug>/memory.json
    workspaces/locks/<slug>    held by the runs that use the folder, or by who removes it
    runs/<run>/                log, record, ticket and prompt files, artifacts, and `tmp` while it runs
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from agentsmith import privacy
from agentsmith.domain.asking import Wake
from agentsmith.domain.errors import MachineTrouble
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import Ticket, slug
from agentsmith.git.errors import WorkspaceBusy
from agentsmith.git.locks import FileLock
from agentsmith.git.places import Places
from agentsmith.guard.client import User
from agentsmith.pipelines.record import FOLDER, LOG
from agentsmith.pipelines.worker import SAY, prefix, quoted, read_text

WORKSPACES: Final = "workspaces"
ALWAYS_PASSED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL", "TERM")
_REMOVED_WITHIN: Final = 3600.0
"""How long somebody may take to remove a large folder before we say that this machine is in trouble."""
_LARGEST_MEMORY: Final = 1024 * 1024
_LONGEST_VARIABLE: Final = 100_000
"""Linux refuses a single variable over 128 KiB; the whole text is in the ticket file."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What one run of a ticket leaves to the next on the same machine. Losing it costs only time."""

    previous_error: str = ""
    sessions: dict[str, str] = field(default_factory=dict)
    """The last session of each agent."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of one run. Their names hold nothing that a ticket could choose."""

    ticket: Path
    run: Path
    user: User | None
    held: FileLock

    @classmethod
    async def make(cls, data_dir: Path, request: PipelineRequest, user: User | None = None) -> Self:
        """Make the folders, once nobody is removing them; nobody does before `leave`, or before this process ends.

        Where commands run as another user, what they need is that user's.
        """
        ticket = data_dir / WORKSPACES / slug(request.key, request.tracker)
        try:
            held = await FileLock.take(
                lock_of(ticket), within=_REMOVED_WITHIN, what=f"the folder {ticket.name}", shared=True
            )
        except WorkspaceBusy as error:
            raise MachineTrouble(str(error)) from None
        place = cls(ticket, data_dir / FOLDER / request.run, user, held)
        try:
            place._make(data_dir)
        except BaseException:
            held.release()
            raise
        return place

    def _make(self, data_dir: Path) -> None:
        for folder in (self.ticket, self.run.parent, self.run):
            folder.mkdir(exist_ok=True, mode=0o700)  # each by itself: of those above only the last would be private
        for folder in (self.work, self.home, self.temporary):
            folder.mkdir(exist_ok=True, mode=0o700)
            self.give(folder)
        if self.user is not None:
            # To pass through, not to look around.
            for folder in (data_dir, *(f.parent for f in (self.ticket, self.run)), self.ticket, self.run):
                folder.chmod(0o711)

    def leave(self) -> None:
        """The run no longer uses the folders."""
        self.held.release()

    @property
    def work(self) -> Path:
        """Where steps run."""
        return self.ticket / "work"

    @property
    def home(self) -> Path:
        """What steps take for their home."""
        return self.ticket / "home"

    @property
    def temporary(self) -> Path:
        """For files that go with the run."""
        return self.run / "tmp"

    @property
    def log(self) -> Path:
        """Where the output of every step goes."""
        return self.run / LOG

    @property
    def ticket_file(self) -> Path:
        """The ticket as JSON."""
        return self.run / "ticket.json"

    @property
    def prompt_file(self) -> Path:
        """The prompt."""
        return self.run / "prompt.md"

    @property
    def wake_file(self) -> Path:
        """Why the run begins, and what people said, as JSON."""
        return self.run / "wake.json"

    @property
    def status_file(self) -> Path:
        """The status file, for a worker that prefers it to lines of output."""
        return self.temporary / "status"

    @property
    def artifacts(self) -> Path:
        """The files that the run handed over."""
        return self.run / "artifacts"

    def give(self, path: Path) -> None:
        """Let the steps' user have it."""
        if self.user is not None:
            os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)

    def write(self, path: Path, text: str) -> None:
        """A file for the steps to read."""
        path.touch(mode=0o600)
        path.write_bytes(text.encode("utf-8", "replace"))
        self.give(path)

    def clear_temporary(self) -> None:
        """Remove what only the steps needed."""
        shutil.rmtree(self.temporary, ignore_errors=True)

    def remembered(self) -> Memory:
        """What the last run of this ticket left, if it was on this machine."""
        try:
            data = json.loads(read_text(self.ticket / "memory.json", limit=_LARGEST_MEMORY))
            error, sessions = data["previous_error"], data["sessions"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return Memory()
        if not isinstance(error, str) or not isinstance(sessions, dict):
            return Memory()
        return Memory(error, {str(k): v for k, v in sessions.items() if isinstance(v, str)})

    def remember(self, memory: Memory) -> None:
        """Write this for the next run."""
        part = self.ticket / "memory.part"
        with contextlib.suppress(OSError):
            part.write_text(json.dumps(asdict(memory)), errors="replace")
            os.replace(part, self.ticket / "memory.json")


def lock_of(folder: Path) -> Path:
    """The file to lock while a ticket's folder is used, shared with other runs, or removed, alone."""
    locks = Places(folder.parent).locks
    for above in (folder.parent.parent, folder.parent, locks):
        above.mkdir(parents=True, exist_ok=True, mode=0o700)
    return locks / folder.name


def environment(
    request: PipelineRequest, ticket: Ticket, platform: str, place: Workplace, wake: Wake
) -> dict[str, str]:
    """What a step learns about its ticket and why it runs; also writes the files of both."""
    text = {
        "id": request.ticket,
        "key": request.key,
        "title": request.pinned.title,
        "body": request.pinned.body,
        "url": ticket.url,
        "platform": platform,
        "labels": sorted(ticket.labels),
        "author": ticket.author,
        "run": request.run,
        "attempt": request.attempt,
    }
    place.write(place.ticket_file, json.dumps(text, indent=2))
    place.write(place.wake_file, json.dumps(_as_data(wake), indent=2))
    return {
        "AGENTSMITH_TICKET_ID": request.ticket,
        "AGENTSMITH_TICKET_KEY": request.key,
        "AGENTSMITH_TICKET_TITLE": _variable(request.pinned.title),
        "AGENTSMITH_TICKET_URL": _variable(ticket.url),
        "AGENTSMITH_TICKET_PLATFORM": platform,
        "AGENTSMITH_TICKET_FILE": str(place.ticket_file),
        "AGENTSMITH_PROMPT_FILE": str(place.prompt_file),
        "AGENTSMITH_RUN_ID": request.run,
        "AGENTSMITH_ATTEMPT": str(request.attempt),
        "AGENTSMITH_WAKE_REASON": _variable(request.wake_reason or ""),
        "AGENTSMITH_WAKE_FILE": str(place.wake_file),
        "AGENTSMITH_STATUS_FILE": str(place.status_file),
        SAY: prefix(),
        **({"TRACEPARENT": request.trace} if request.trace else {}),
        "HOME": str(place.home),
        "TMPDIR": str(place.temporary),
    }


def _as_data(wake: Wake) -> dict[str, object]:
    """The wake file. What people wrote says nothing to us if a worker prints it."""
    return {
        "reason": wake.reason,
        "question": quoted(wake.question.text) if wake.question is not None else "",
        "notes": [{"author": quoted(note.author), "text": quoted(note.text), "at": note.when} for note in wake.notes],
    }


def passed_on(names: tuple[str, ...], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The few variables of ours that a step may see: never a credential unless somebody named it (P8)."""
    environ = privacy.environment() if environ is None else environ
    return {name: environ[name] for name in (*ALWAYS_PASSED, *names) if name in environ}


def with_session(memory: Memory, agent: str, session: str) -> Memory:
    """The memory with the agent's latest session."""
    return replace(memory, sessions={**memory.sessions, agent: session})


def _variable(text: str) -> str:
    """Text that may stand in an environment: no NUL, no lone surrogate, not too long."""
    clean = text.replace("\0", "").encode("utf-8", "replace")[:_LONGEST_VARIABLE]
    return clean.decode("utf-8", "ignore")

"""What a failed command says: to people as lines, to programs as one document, and to the shell as an exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import typer

from agentsmith.cli import output
from agentsmith.domain import errors
from agentsmith.domain.errors import AgentSmithError, causes_of

NO: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130

_BUG: Final = "This is a bug. Set AGENTSMITH_DEBUG=1 to see where, and report it with what you did."
_DIAGNOSE: Final = "see: agentsmith doctor"
_KINDS: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (errors.SecretMissing, "secret-missing", "set the variable, or write it into the env_file"),
    (errors.ConfigError, "bad-input", "correct what the message names"),
    (errors.Unauthorized, "tracker-unauthorized", "make a new token, and configure it"),
    (errors.Refused, "tracker-refused", "give the token's account the right to do it"),
    (errors.TicketNotFound, "ticket-not-found", "name a ticket that is there, and that the token's account may see"),
    (errors.RateLimited, "tracker-rate-limited", "try again later; see: agentsmith quota"),
    (errors.TrackerUnavailable, "tracker-unreachable", "try again later"),
    (errors.TrackerError, "tracker-failed", _DIAGNOSE),
    (errors.StoreRefused, "redis-refuses", _DIAGNOSE),
    (errors.StoreUnavailable, "redis-unreachable", _DIAGNOSE),
    (errors.MachineTrouble, "machine-trouble", "see to the machine: room on its disks, open files, processes"),
    (AgentSmithError, "failed", _DIAGNOSE),
)
"""What each kind of error is called, and what helps where the message itself does not say so."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command failed. `code` is for programs to branch on, `error` and `remedy` are for people."""

    error: str
    remedy: str
    code: str
    exit_code: int
    problems: list[str]
    """All that is wrong, if it is several things: `error` is the first."""
    ok: bool = False


INTERRUPT: Final = Failure("interrupted", "start it again", "interrupted", INTERRUPTED, ["interrupted"])


def misused(error: typer.TyperException) -> Failure:
    """Arguments that cannot be understood."""
    context = getattr(error, "ctx", None)
    said = error.format_message().replace("Value error, ", "")
    remedy = f"see: {context.command_path if context is not None else 'agentsmith'} --help"
    return Failure(said, remedy, "usage", BAD_INPUT, [said])


def failed(error: Exception) -> Failure:
    """Whatever else went wrong."""
    causes = causes_of(error)
    # What fails beside ours fails because of it.
    ours = {str(cause): cause for cause in causes if _ours(cause)}
    if not ours:
        reasons = "; ".join(dict.fromkeys(f"{type(cause).__name__}: {cause}" for cause in causes))
        said = f"something broke inside agentsmith: {reasons}"
        return Failure(said, _BUG, "bug", NO, [said])
    problems = [line for text in ours for line in text.splitlines()] or [""]
    first = next(iter(ours.values()))
    code, general = next(
        ((code, remedy) for kind, code, remedy in _KINDS if isinstance(first, kind)), ("redis-unreachable", _DIAGNOSE)
    )
    return Failure(problems[0], _remedy_in(problems[0]) or general, code, BAD_INPUT, problems)


def tell(failure: Failure, *, as_json: bool) -> None:
    """Lines for people on standard error; for programs one document as well, on standard output."""
    if as_json:
        output.json_result({name: output.redacted(value) for name, value in asdict(failure).items()})
    if failure is INTERRUPT:
        return
    output.error("\n".join(failure.problems))
    if failure.code in ("usage", "bug"):
        output.note(failure.remedy)


def _remedy_in(message: str) -> str:
    """What to do, of a message that says so after what is wrong: `the port is taken; set server.port`."""
    _, _, remedy = message.partition("; ")
    return remedy or message.partition(". ")[2]


def _ours(error: BaseException) -> bool:
    # Looked up only now, because the store is slow to import and most commands end well.
    from agentsmith.store.server.binary import ServerUnavailable

    return isinstance(error, AgentSmithError | ServerUnavailable)

"""The error tree. Callers branch on the class or on `retryable`, never on a platform or a status code.

AgentSmithError
  ConfigError                 the user's configuration or input is wrong; the message names the remedy
    SecretMissing             a secret is needed that the configuration takes from a variable that is not set
  TrackerError                a tracker did not do what was asked
    Unauthorized              the credential is refused                                not retryable
    Refused                   what was asked for is not done                           not retryable
      NotPermitted            the credential is good, but may not do this              not retryable
    TicketNotFound            no such ticket, or no right to see it                    not retryable
    BadAnswer                 the answer was not what the platform documents           not retryable
    RateLimited               the platform asked us to wait until `retry_at`           retryable
    TrackerUnavailable        time-out, connection trouble, 5xx                        retryable
  StoreUnavailable            Redis does not answer or cannot be used
    StoreRefused              it answers, but does not work for now
  LeaseLost                   somebody else owns the ticket now, or the trust window closed (P6)
  MachineTrouble              the machine that we run on fails us: a full disk, no files left, no process to be had
"""

from __future__ import annotations

import errno
from typing import Final

OF_THE_MACHINE: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.EROFS,
        errno.ENOMEM,
        errno.EIO,
        errno.EAGAIN,
    }
)
"""What the system says when the machine is at fault, whatever it was asked to do. Others (no such file, not permitted)
may be about the file: whether they are ours depends on whose it is."""


class AgentSmithError(Exception):
    """Anything that agentsmith itself raises; its text is fit for a person to read."""


class ConfigError(AgentSmithError):
    """The configuration or a command's input is wrong; exit code 2."""


class SecretMissing(ConfigError):
    """A secret is needed now whose variable is not set. Whoever can do without it goes on."""


class StoreUnavailable(AgentSmithError):
    """Redis cannot be reached or does not meet the requirements; the message names the remedy."""


class StoreRefused(StoreUnavailable):
    """Redis is there and refuses. Trying again later can help, with a `remedy` only after a person acted on it."""

    def __init__(self, reply: str, *, remedy: str = "", reconnect: bool = False, settings: bool = False) -> None:
        super().__init__(f"{reply.rstrip('.')}; {remedy}" if remedy else reply)
        self.reply, self.remedy, self.reconnect, self.settings = reply, remedy, reconnect, settings


class LeaseLost(AgentSmithError):
    """A newer fence stands, or the trust window closed: stop, and begin no further write."""


class MachineTrouble(AgentSmithError):
    """This machine cannot do its part. It says nothing about the ticket, which is given back uncounted (P2)."""


def pass_over(error: BaseException) -> None:
    """For whoever takes a file that cannot be read for no file at all: MachineTrouble if the machine is at fault."""
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        raise MachineTrouble(describe(error)) from error


def describe(error: BaseException) -> str:
    """What broke, in words for a log or a ticket; of an error that nobody foresaw no more than its name."""
    if isinstance(error, AgentSmithError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if isinstance(error.filename, str) else error.strerror
    return type(error).__name__


def causes_of(error: BaseException) -> list[BaseException]:
    """The errors inside groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in causes_of(inner)]
    return [error]


class TrackerError(AgentSmithError):
    """A tracker failed; `retryable` tells whether asking again later can help."""

    retryable = False

    def __init__(self, message: str, *, retry_at: float | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at
        """Seconds since the epoch before which asking again is pointless, where the platform said so."""


class Unauthorized(TrackerError):
    """The credential is wrong, expired or missing."""


class Refused(TrackerError):
    """The credential is valid but lacks the permission, also where the platform drops a write silently."""


class NotPermitted(Refused):
    """Only a person can do something about it, by giving the credential a permission."""


class TicketNotFound(TrackerError):
    """There is no such ticket, it was deleted, or we may not see it."""


class BadAnswer(TrackerError):
    """The platform answered with something that its documentation does not allow."""


class RateLimited(TrackerError):
    """The platform wants us to wait."""

    retryable = True


class TrackerUnavailable(TrackerError):
    """The platform cannot be reached or fails; its state is unknown, never "empty" (P9)."""

    retryable = True

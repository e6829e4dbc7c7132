"""What can happen to a process between two steps, to what it asks of others, and to the ticket in that moment."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What can happen between two steps of a process."""

    CRASH = "crash"
    PAUSE = "pause"
    FAIL = "fail"
    """The request does not get through."""
    LOSE = "lose the answer"
    """It is carried out, but the answer does not get through."""
    LATE = "land late"
    """The tracker carries it out at some later time, and nobody hears of it."""
    LIMIT = "limit"
    """The tracker wants to be left alone for a while."""
    SLOW = "slow"
    """It takes its time."""
    STALE = "stale read"
    """The tracker answers what was true before the latest write."""
    TAG = "person tags"
    UNTRIGGER = "person untriggers"
    UNLABEL = "person unlabels"
    """A person acts on the ticket in just this moment."""


PERSONS: Final = (Fault.TAG, Fault.UNTRIGGER, Fault.UNLABEL)

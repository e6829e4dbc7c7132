"""Webhooks from the platform's side: how ours are installed, what is wrong with them, and what failed to arrive.

H1  `hooks` lists every webhook of the project that our credential may see; Refused when it may not see any.
H2  `install_hook` makes one that tells of all that matters and nothing else, with the secret, and switched on.
H3  `repair_hook` makes an existing one so; it may replace it.
H4  `remove_hook` of one that is gone is no error.
H5  No method ever answers, logs or raises a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

PATH = "webhooks"


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook as the platform has it; `ref` is the platform's name for it."""

    ref: str
    url: str
    problems: tuple[str, ...] = ()
    """What keeps it from telling us everything, in words; empty when all is well."""


@runtime_checkable
class ManagesHooks(Protocol):
    """A tracker whose platform lets a program look after its webhooks (H1 to H5)."""

    async def hooks(self) -> tuple[Hook, ...]:
        """Every webhook of the project (H1)."""

    async def install_hook(self, url: str, secret: str) -> Hook:
        """A new one (H2)."""

    async def repair_hook(self, hook: Hook, secret: str) -> Hook:
        """The same one, made right (H3)."""

    async def remove_hook(self, hook: Hook) -> None:
        """Take it away (H4)."""


@runtime_checkable
class KeepsDeliveries(Protocol):
    """A tracker whose platform remembers what it failed to deliver, and sends it again when asked."""

    async def redeliver_failed(self, tracker: str, public_url: str | None) -> int:
        """Ask for every failed delivery to our webhook again; answers how many. Refused when that may not be asked.

        What comes then is signed and verified like any other delivery.
        """


def address(public_url: str, tracker: str) -> str:
    """Where a tracker's webhooks are to be sent."""
    return f"{public_url.rstrip('/')}/{PATH}/{tracker}"


def is_ours(url: str, tracker: str, public_url: str | None) -> bool:
    """Whether a webhook with this address calls us about this tracker; a secret may stand behind its name."""
    if public_url is not None:
        ours = address(public_url, tracker)
        return url == ours or url.startswith(f"{ours}/")
    try:
        parts = urlsplit(url).path.strip("/").split("/")
    except ValueError:
        return False
    return parts[-2:] == [PATH, tracker] or parts[-3:-1] == [PATH, tracker]

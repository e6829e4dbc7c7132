"""A secret that is not there: what stands in its place says so, as soon as somebody wants to use it.

Most commands need few of the secrets that a configuration names, and should work without the others. The text in the
place of a missing one fits wherever a secret does, addresses included, and is never sent anywhere.
"""

from __future__ import annotations

import re
from typing import Final

from agentsmith.domain.errors import SecretMissing

_STAND_IN: Final = re.compile(r"agentsmith-lacks-([0-9a-f]+)-")


def stand_in(message: str) -> str:
    """The text in the place of a secret that is not there; `message` says which, where it is used, and what to do."""
    return f"agentsmith-lacks-{message.encode('utf-8', 'replace').hex()}-"


def lacks_in(text: str) -> list[str]:
    """What is said of all that is missing in this text; empty where it is whole."""
    return [bytes.fromhex(found).decode() for found in _STAND_IN.findall(text)]


def demand(secret: str) -> str:
    """The secret as it is; SecretMissing when something only stands in for it."""
    if messages := lacks_in(secret):
        raise SecretMissing("\n".join(messages))
    return secret

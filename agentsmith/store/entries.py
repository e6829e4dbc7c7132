"""Entries of the lists that are taken from: each has a name of its own, so that no two of them are ever equal.

An entry is the text of a signal or of a request; its name stands in front, as a first field `entry` that readers pass
over. Whoever puts an entry back gives it another name: then what its former taker still believes to hold is in no list
any more, and nothing that it says about it, however late, can hit what somebody else was given since.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

_NAME: Final = re.compile(r'\{"entry":"([^"]*)",')


def new_name() -> str:
    """A name that no entry had before."""
    return secrets.token_hex(8)


def name_in(entry: str) -> str:
    """The name of an entry; empty where it has none."""
    found = _NAME.match(entry)
    return found[1] if found else ""

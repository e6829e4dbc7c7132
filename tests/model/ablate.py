"""Taking one safeguard out at a time, to see whether the model notices."""

from __future__ import annotations

from agentsmith.store import scripting
from agentsmith.store.scripting import Script


def without(script: Script, *cuts: tuple[str, str]) -> Script:
    """The script with pieces replaced; each must be there, so that an ablation cannot quietly become none."""
    text = script._text.removeprefix(scripting._PREAMBLE)
    for old, new in cuts:
        assert old in text, f"the script has changed; nothing says {old!r} any more"
        text = text.replace(old, new)
    return Script(text)

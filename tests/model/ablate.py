"""Taking one safeguard out at a time, to see whether the model notices."""

from __future__ import annotations

import pytest

from agentsmith.store import scripting
from tests.support.scripts import ScriptType


def cut(patch: pytest.MonkeyPatch, script: ScriptType, old: str, new: str) -> None:
    """Replace a piece of the script; it must be there, so that an ablation cannot quietly become none."""
    assert old in script.lua, f"the script has changed; nothing says {old!r} any more"
    patch.setattr(script, "lua", script.lua.replace(old, new))
    patch.setattr(script, "program", scripting._build(script))

"""What every part of the configuration has in common."""

from __future__ import annotations

from pydantic import ConfigDict

from agentsmith.config.described import Described


class Section(Described):
    """A part of the configuration: unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

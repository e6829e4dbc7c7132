"""What every part of the configuration has in common."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict

from agentsmith.config.described import Described


class Section(Described):
    """A part of the configuration: unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def __copy__(self) -> Self:
        """A copy, in which values may be changed, works out anew what follows from them."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

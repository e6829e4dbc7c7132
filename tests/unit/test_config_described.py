"""What settings are for, as their source says."""

from __future__ import annotations

from pydantic import Field, create_model

from agentsmith.config.described import Described, descriptions


class _Base(Described):
    kept: int = 1
    """What the base says."""
    told_anew: int = 2
    """What the base says of the other."""
    silent: int = 3


class _Derived(_Base):
    told_anew: int = 4
    """What is said
    in two lines."""
    renamed: int = Field(default=5, alias="other-name")
    """It goes by another name."""


def test_the_nearest_word_counts_and_silence_is_no_word() -> None:
    assert descriptions(_Derived) == {
        "kept": "What the base says.",
        "told_anew": "What is said\nin two lines.",
        "renamed": "It goes by another name.",
    }


def test_the_schema_tells_it_under_the_name_in_the_file() -> None:
    properties = _Derived.model_json_schema()["properties"]
    assert properties["other-name"]["description"] == "It goes by another name."
    assert "description" not in properties["silent"]


def test_a_model_without_source_is_described_as_far_as_it_goes() -> None:
    made = create_model("Made", __base__=_Base, more=(int, 6))
    assert descriptions(made) == descriptions(_Base)
    assert set(made.model_json_schema()["properties"]) == {"kept", "told_anew", "silent", "more"}

"""Texts as platforms take them: how long they are, and how they are cut. Pure."""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text without what UTF-8 lacks, and without the character that databases refuse."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def utf16_size(text: str) -> int:
    """The length as the strictest platforms count it: a character outside the basic plane counts twice."""
    return len(text) + sum(1 for c in text if ord(c) > 0xFFFF)


def utf16_beginning(text: str, room: int) -> str:
    """As much of the beginning as fits, by the same count."""
    used = 0
    for index, character in enumerate(text):
        used += 2 if ord(character) > 0xFFFF else 1
        if used > room:
            return text[:index]
    return text

"""`make docs`: write docs/json.md, the form of every command's answer, from what the program says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentsmith.cli import answers, shapes

PAGE: Final = Path(__file__).parents[2] / "docs" / "json.md"
_HEAD: Final = """# Answers for programs

Every command that shows something takes `--json`, and then prints one JSON document on standard output: what
stands below, or, where it fails, an [error](#error). Notes for people go to standard error as always. `make
docs` writes this page from the program, and a test holds what commands print against it.

Each form has a version, the number at the end of its name. Within a version fields are only added, so ignore
those that you do not know; where one goes or changes its meaning, the number rises, and the changelog says
so. `agentsmith schema` prints the same as JSON schemas, `agentsmith schema status` that of one command.

Times are in ISO 8601 with their offset, or in seconds since 1970 where they are numbers; spans are in
seconds. Fields of an error: `error` says what went wrong, `remedy` what to do about it, `code` is a word to
branch on, `exit_code` what the shell gets, and `problems` lists all that is wrong where that is more than one
thing (a configuration file, say).

| `code` | What it means |
|---|---|
| `usage` | the arguments cannot be understood |
| `bad-input` | a configuration or an argument is wrong |
| `secret-missing` | a secret is needed whose variable is not set |
| `redis-unreachable`, `redis-refuses` | there is no answer from Redis, or it cannot take anything now (a full disk) |
| `tracker-unreachable`, `tracker-rate-limited`, `tracker-failed` | the tracker is away, wants us to wait, or breaks |
| `tracker-unauthorized`, `tracker-refused`, `ticket-not-found` | the token is no good, may not, or sees no ticket |
| `machine-trouble` | this machine has no room, files or processes left |
| `failed`, `bug`, `interrupted` | something else; something broke in agentsmith; Ctrl-C |
"""


def page() -> str:
    """The page as it should be."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    same: dict[str, str] = {}
    for command, kind in answers.KINDS.items():
        title = "error" if command == answers.ERROR else f"agentsmith {command}"
        shown = "\n".join(line.rstrip() for line in shapes.written(kind.shape))
        head = f"## `{title}`\n\n`{answers.name_of(command)}`: {kind.about}.\n"
        if command != answers.ERROR and shown in same:
            yield f"{head}\nAs that of `{same[shown]}`.\n"
        else:
            same[shown] = title
            yield f"{head}\n```text\n{shown}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")

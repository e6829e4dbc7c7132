"""`make docs`: write docs/commands.md, every command's own help on one page, so that it can be read and searched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer.main
from typer.core import TyperGroup

from agentsmith.cli.app import app

PAGE: Final = Path(__file__).parents[2] / "docs" / "commands.md"
_WIDTH: Final = 100
_HEAD: Final = """# Commands

What `agentsmith COMMAND --help` says, for all commands. `make docs` writes this page from the program: change the help
texts, not this file. Exit codes: 0 fine, 1 the answer is no, 2 bad input or configuration, 130 interrupted.
"""


def page() -> str:
    """The page as it should be."""
    app.rich_markup_mode = None  # plain text, also where this runs in a terminal
    root = typer.Context(typer.main.get_command(app), info_name="agentsmith", terminal_width=_WIDTH)
    return "\n".join([_HEAD, *_sections(root)])


def _sections(context: typer.Context) -> Iterator[str]:
    shown = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    yield f"## `{context.command_path}`\n\n```text\n{shown}\n```\n"
    if isinstance(context.command, TyperGroup):
        for name, child in context.command.commands.items():
            yield from _sections(typer.Context(child, parent=context, info_name=name))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")

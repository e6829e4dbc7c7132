"""`agentsmith docs` and `agentsmith config example`: the texts that come with the program.

A wheel has them inside the package; in a checkout they are read where they stand, so that there is one source.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Final

from agentsmith.cli import output
from agentsmith.domain.errors import ConfigError

_PACKAGE: Final = Path(__file__).parents[1]
_EXAMPLE: Final = "config.example.yaml"


def docs(name: str | None, *, as_json: bool) -> None:
    """List the pages, or print one as it is."""
    pages = _pages(_home() / "docs")
    if name is not None:
        found = _named(name, pages)
        text = pages[found].read_text(encoding="utf-8")
        if as_json:
            output.json_result({"name": found, "title": _title(text), "text": text})
        else:
            output.say(text.rstrip("\n"))
        return
    listed = [(found, _title(file.read_text(encoding="utf-8"))) for found, file in pages.items()]
    if as_json:
        output.json_result([{"name": found, "title": title} for found, title in listed])
        return
    output.rows(("Name", "About"), listed)
    output.note("\nRead one with: agentsmith docs NAME")


def example() -> None:
    """Print the example configuration."""
    output.say((_home() / _EXAMPLE).read_text(encoding="utf-8").rstrip("\n"))


def _home() -> Path:
    """The folder that the texts are in."""
    for folder in (_PACKAGE / "shipped", _PACKAGE.parent):
        if (folder / _EXAMPLE).is_file() and (folder / "docs").is_dir():
            return folder
    raise ConfigError(f"the documentation was not installed with the program in {_PACKAGE}; install it again")


def _pages(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in sorted(folder.rglob("*.md"))}


def _named(text: str, pages: dict[str, Path]) -> str:
    """The page that was asked for: `trackers/github`, or as pages link to it, or only `github`."""
    wanted = text.removeprefix("docs/").removesuffix(".md").lower()
    if wanted in pages:
        return wanted
    # No two pages may have the same last name; a test sees to it.
    by_last_name = {name.rpartition("/")[2]: name for name in pages}
    if wanted in by_last_name:
        return by_last_name[wanted]
    near = get_close_matches(wanted, [*pages, *by_last_name], n=1)
    advice = f"did you mean `{by_last_name.get(near[0], near[0])}`? " if near else ""
    raise ConfigError(f"there is no page {text[:80]!r}; {advice}Known: {', '.join(pages)}")


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")

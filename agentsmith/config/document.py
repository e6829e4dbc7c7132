"""A YAML file as plain data that remembers on which line each key stood.

Only texts, numbers, true/false, null, lists and mappings come out; no tag ever makes an object. The plain-value
rules are those of YAML 1.2 (`on`, `yes` and `012` stay texts). `${NAME}` is filled in from the environment, but
not in commands (`run` and `verify` steps, agents): there `${…}` belongs to the shell, and a secret has no business
in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from yaml.composer import Composer
from yaml.error import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from agentsmith.config.lacking import stand_in

LARGEST_FILE: Final = 1024 * 1024
_DEEPEST: Final = 32
_MOST_VALUES: Final = 20_000
"""Counted after aliases are filled in, so that a few lines cannot grow into gigabytes."""

_TAG: Final = "tag:yaml.org,2002:"
_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?)")
_TAGGED: Final = "has a tag (`!…`) that is not supported; remove it"
_QUOTED: Final = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"|<[^>]*>")

Path = tuple[str | int, ...]

_REMEDIES: Final = (
    ("\\t", "a tab stands where YAML wants spaces; indent with spaces"),
    ("mapping values are not allowed", "a second `: ` on the line; check the indentation, or quote the text"),
    ("cannot start any token", "the text starts with a special character; quote it"),
    ("expected ':'", "the line is no `key: value`; check indentation and colons"),
    ("another document", "more than one document (`---`); keep one"),
    ("undefined alias", "`*name` points to nothing; quote the text if it is one"),
    ("block end", "the indentation does not fit the lines above"),
    ("quoted scalar", "a quotation mark is not closed"),
)


class BrokenDocument(Exception):
    """The text cannot be used at all, or parts of it; each problem has a path, a line and a text."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("broken document")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    path: Path
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a file, and where it came from."""

    data: dict[str, object] = field(default_factory=dict)
    lines: Mapping[Path, int] = field(default_factory=dict)
    filled: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    """Values that came, at least in part, from the environment, with the names of the variables."""


def _plainly(problem: Problem) -> str:
    return problem.text


def read_document(raw: bytes, environ: Mapping[str, str], *, worded: Callable[[Problem], str] = _plainly) -> Document:
    """The mapping in the file; raises BrokenDocument, and nothing else, for any input.

    `worded` is how a problem is put to people, for secrets that turn out to be needed, and missing, later.
    """
    text = _decoded(raw)
    try:
        node = _Loader(text).get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, max(error.position, 0)) + 1
        raise _broken(line, "a character that no text file holds; is this a YAML file?") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _broken(mark.line + 1 if mark else None, _explained(error)) from None
    except (YAMLError, RecursionError, ValueError):
        raise _broken(None, "is not valid YAML") from None
    if node is None:
        return Document()
    build = _Build(environ, worded)
    data = build.value(node, ())
    if data is None and not build.problems:
        return Document()
    if not isinstance(data, dict) and not build.problems:
        raise _broken(node.start_mark.line + 1, "must be a mapping: lines like `label_prefix: agent-smith`")
    if build.problems or not isinstance(data, dict):
        raise BrokenDocument(*build.problems, *build.lacking)
    return Document(data, build.lines, build.filled)


def _broken(line: int | None, text: str) -> BrokenDocument:
    return BrokenDocument(Problem((), line, text))


def _decoded(raw: bytes) -> str:
    if len(raw) > LARGEST_FILE:
        raise _broken(None, f"is larger than {LARGEST_FILE // 1024} KiB; is this the right file?")
    if b"\0" in raw:
        raise _broken(None, "is not a text file; save it as UTF-8 text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _broken(line, "is not UTF-8 text; save the file as UTF-8") from None


def _explained(error: MarkedYAMLError) -> str:
    found = f"{error.context or ''} {error.problem or ''}"
    for sign, remedy in _REMEDIES:
        if sign in found:
            return f"is not valid YAML: {remedy}"
    # Quoted parts are left out: what the parser stumbled over may be part of a secret (P8).
    return f"is not valid YAML: {_QUOTED.sub('…', error.problem or error.context or '')}"


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to its node tree: there is no constructor, so nothing can be constructed."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """One node with all below it; refuses a depth that no configuration needs."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise MarkedYAMLError(problem="nested too deep", problem_mark=self.get_mark())
        node: Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), _first)


class _Unusable(Exception):
    """The value at hand cannot be used; its text says why."""


class _Build:
    """One walk over the nodes; keeps going after a problem, so that all are told at once."""

    def __init__(self, environ: Mapping[str, str], worded: Callable[[Problem], str]) -> None:
        self.lines: dict[Path, int] = {}
        self.filled: dict[Path, frozenset[str]] = {}
        self.problems: list[Problem] = []
        self.lacking: list[Problem] = []
        self._environ = environ
        self._worded = worded
        self._values = 0

    def value(self, node: Node, path: Path) -> object:
        """The plain data of a node; what cannot be used is None and a problem."""
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._values += 1
        if self._values > _MOST_VALUES + 1:
            return None
        try:
            return self._value(node, path)
        except _Unusable as error:
            self._problem(path, node, str(error))
            return None

    def _value(self, node: Node, path: Path) -> object:
        if self._values > _MOST_VALUES:
            raise _Unusable(f"is too large: more than {_MOST_VALUES} values, aliases filled in")
        if len(path) > _DEEPEST:
            raise _Unusable("is nested too deep, or an alias that holds itself")
        tag = node.tag.removeprefix(_TAG)
        if isinstance(node, MappingNode) and tag == "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and tag == "seq":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node.value, tag, path)
        raise _Unusable(_TAGGED)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, object]:
        merged: dict[str, object] = {}
        found: dict[str, object] = {}
        for key, child in node.value:
            here = (*path, key.value) if isinstance(key, ScalarNode) else path
            if not isinstance(key, ScalarNode):
                self._problem(path, key, "holds a key that is not a text")
            elif key.value == "<<" and key.style is None:
                merged |= self._merged(child, here)
            elif key.value in found:
                first = self.lines[here]
                self._problem(here, key, f"stands twice (first on line {first}); keep one")
            else:
                self.lines[here] = key.start_mark.line + 1
                found[key.value] = self.value(child, here)
        return merged | found

    def _merged(self, node: Node, path: Path) -> dict[str, object]:
        merged: dict[str, object] = {}
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            data = self.value(source, path)
            if not isinstance(data, dict):
                raise _Unusable("merges (`<<`) something that is not a mapping")
            merged = data | merged
        return merged

    def _scalar(self, text: str, tag: str, path: Path) -> object:
        try:
            match tag:
                case "str":
                    return text if _belongs_to_shell(path) else self._filled_in(text, path)
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return int(text)
                case "float":
                    return float(text)
        except ValueError:
            raise _Unusable("is not the number that it should be") from None
        raise _Unusable(_TAGGED)

    def _filled_in(self, text: str, path: Path) -> str:
        def fill(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            if match[0] == "$$":
                return "$"
            if name is None:
                raise _Unusable("holds `${` without a name behind it; write `${NAME}`, or `$${` for the text")
            found = self._environ.get(name)
            self.filled[path] = self.filled.get(path, frozenset()) | {name}
            if found is None and default is None:
                lack = Problem(path, self.lines.get(path), _not_set(name))
                self.lacking.append(lack)
                return stand_in(self._worded(lack))
            return found or default or ""

        return _VARIABLE.sub(fill, text)

    def _problem(self, path: Path, node: Node, text: str) -> None:
        self.problems.append(Problem(path, node.start_mark.line + 1, text))


def _not_set(name: str) -> str:
    return (
        f"the environment variable {name} is not set; set it, write it into the env_file, or give a default: "
        f"${{{name}:-default}}"
    )


def _belongs_to_shell(path: Path) -> bool:
    if path[:1] == ("agents",):
        return len(path) >= 3 and path[2] in ("command", "resume")
    if len(path) < 5 or path[0] != "pipelines" or path[2] != "steps":
        return False
    return path[4] in ("run", "verify") or path[4:6] in (("with", "command"), ("with", "args"))


def prefixes(path: Path) -> Iterator[Path]:
    """The path and everything above it, longest first, without the root."""
    return (path[:length] for length in range(len(path), 0, -1))

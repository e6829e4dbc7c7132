"""From file, environment and flags to one checked Config, or to one message that says all that is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from agentsmith.config.document import LARGEST_FILE, BrokenDocument, Document, Problem, prefixes, read_document
from agentsmith.config.document import Path as KeyPath
from agentsmith.config.env_file import DEFAULT_NAME, read_env_file
from agentsmith.config.lacking import lacks_in
from agentsmith.config.models import ENV_PREFIX, NESTING, NO_HOSTS, Config, for_platforms
from agentsmith.config.names import default_data_dir
from agentsmith.config.problems import Explainer, dotted, one_line, place, relevant, unknown_key
from agentsmith.config.sections import RepositorySettings, TrackerSettings
from agentsmith.config.steps import AgentSettings, CommandSettings
from agentsmith.domain.errors import ConfigError
from agentsmith.redaction import without

FILE_VARIABLE: Final = f"{ENV_PREFIX}CONFIG"
DEFAULT_FILE: Final = Path("agentsmith.yaml")
BUILT_IN_TRACKER: Final = "local"
Secrets = Literal["all", "as needed"]
"""Which of the secrets that the file names have to be there."""


def find_file(path: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that counts: the one given, else $AGENTSMITH_CONFIG, else ./agentsmith.yaml if it is there."""
    if path is not None:
        return path
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    # A link that points nowhere was meant to be there, and is an error when it is read.
    return DEFAULT_FILE if DEFAULT_FILE.exists() or DEFAULT_FILE.is_symlink() else None


def load(
    path: Path | None = None,
    *,
    platforms: Mapping[str, type[TrackerSettings]],
    hosts: Mapping[str, type[RepositorySettings]] = NO_HOSTS,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
    secrets: Secrets = "all",
) -> Config:
    """The configuration; flags (`{"server.port": 9000}`) win over environment, file and defaults.

    `platforms` are the kinds of trackers, `hosts` the kinds of repositories, by name.
    With `secrets` "as needed", those whose variables are not set are missed when they are used (SecretMissing).
    Raises ConfigError, and nothing else: one line per problem, with file and line, key and remedy. No value
    of a secret is ever part of it.
    """
    file = find_file(path, environ)
    raw = _read(file) if file is not None else b""
    beside = _beside(file, raw, environ)
    variables = read_env_file(beside) if beside is not None else {}
    environ = {**variables, **environ}
    document = _parsed(file, raw, environ)
    sources = _Sources(file, document)
    data = _without_nulls(document.data)
    for name, key, value in _from_environment(environ):
        sources.variables[key] = name
        _put(data, key, value)
    for option, value in (flags or {}).items():
        if value is None:
            continue  # an option that was not given
        key = tuple(option.split("."))
        sources.flags.add(key)
        _put(data, key, value)
    data.setdefault("data_dir", default_data_dir(environ))
    if beside is not None:
        data["env_file"] = beside
    if BUILT_IN_TRACKER in platforms:
        _add_built_in_tracker(data)
    model = for_platforms(platforms, hosts)
    explainer = Explainer(model, data, {TrackerSettings: platforms, RepositorySettings: hosts})
    _check_lacks(data, sources, explainer if secrets == "as needed" else None)
    config = _checked(data, model, explainer, sources)
    _check_passed_on(config, environ, sources)
    used = {name for key, names in document.filled.items() if not explainer.is_secret(key) for name in names}
    config.hold(variables, shown=used | {name for name in variables if name.startswith(ENV_PREFIX)})
    return config


def env_file_of(file: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file of variables that belongs to a configuration file; None where there is none, or nobody can tell."""
    try:
        return _beside(file, _read(file), environ)
    except ConfigError:
        return None


def _beside(file: Path | None, raw: bytes, environ: Mapping[str, str]) -> Path | None:
    """Where the variables are: in the file that is named, else in the one that lies beside the configuration."""
    folder = file.parent if file is not None else Path()
    named = environ.get(f"{ENV_PREFIX}ENV_FILE") or _parsed(file, raw, environ).data.get("env_file")
    if isinstance(named, str) and named.strip() and not lacks_in(named):
        return folder / os.path.expanduser(named)
    default = folder / DEFAULT_NAME
    return default if named is None and file is not None and default.is_file() else None


@dataclass(slots=True)
class _Sources:
    """Where each value came from, to say where a problem is."""

    file: Path | None
    document: Document
    variables: dict[KeyPath, str] = field(default_factory=dict)
    flags: set[KeyPath] = field(default_factory=set)

    def line(self, key: KeyPath, text: str) -> str:
        """`agentsmith.yaml:7: server.port: …`."""
        return one_line(": ".join(part for part in (self._where(key), dotted(key), text) if part))

    def quotable(self, key: KeyPath) -> bool:
        """Whether the value was written by hand, not taken from the environment."""
        return not any(above in self.variables or above in self.document.filled for above in prefixes(key))

    def position(self, key: KeyPath) -> int:
        """The line in the file, or of what stands above it; problems are told in this order."""
        return next((self.document.lines[above] for above in prefixes(key) if above in self.document.lines), 0)

    def _where(self, key: KeyPath) -> str:
        for above in prefixes(key):
            if above in self.flags:
                return "command line"
            if above in self.variables:
                return f"environment variable {self.variables[above]}"
        for above in prefixes(key):
            if above in self.document.lines:
                return f"{self.file}:{self.document.lines[above]}"
            for inside, name in self.variables.items():
                if inside[: len(above)] == above:
                    return f"environment variable {name}"
        return str(self.file) if self.file is not None else "configuration"


def _read(file: Path) -> bytes:
    """The text, read once: it may come out of a pipe."""
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"{file}: there is no such file; check --config and ${FILE_VARIABLE}, or leave both out for the defaults"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{file}: is a folder, not a file; name the YAML file inside it") from None
    except PermissionError:
        raise ConfigError(f"{file}: may not be read by this user; check its permissions") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise ConfigError(f"{file}: cannot be read: {reason}") from None


def _parsed(file: Path | None, raw: bytes, environ: Mapping[str, str]) -> Document:
    if file is None:
        return Document()
    try:
        return read_document(raw, environ, worded=lambda problem: _worded(file, problem))
    except BrokenDocument as error:
        raise ConfigError("\n".join(_worded(file, problem) for problem in error.problems)) from None


def _worded(file: Path, problem: Problem) -> str:
    where = f"{file}:{problem.line}" if problem.line else str(file)
    return one_line(": ".join(part for part in (where, dotted(problem.path), problem.text) if part))


def _without_nulls(data: Mapping[str, object], path: KeyPath = ()) -> dict[str, Any]:
    """The data without keys that have nothing behind them: a section that is all comments is no error."""
    kept: dict[str, Any] = {}
    for key, value in data.items():
        here = (*path, key)
        if isinstance(value, dict):
            kept[key] = _without_nulls(value, here)
        elif value is not None:
            kept[key] = value
        elif len(here) == 2 and here[0] in ("trackers", "repositories", "pipelines", "agents"):
            kept[key] = {}  # a tracker without settings is not the same as no tracker
    return kept


def _add_built_in_tracker(data: dict[str, Any]) -> None:
    """Where no tracker is configured there is `local`; under this name it needs no `platform`."""
    trackers = data.setdefault("trackers", {})
    if trackers == {}:
        trackers[BUILT_IN_TRACKER] = {}
    if isinstance(trackers, dict) and isinstance(trackers.get(BUILT_IN_TRACKER), dict):
        trackers[BUILT_IN_TRACKER].setdefault("platform", BUILT_IN_TRACKER)


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, KeyPath, object]]:
    """Variables that stand for a setting: AGENTSMITH_DATA_DIR, AGENTSMITH_SERVER__PORT; empty ones do not count.

    Other names with our prefix are not ours to judge (a step's environment has some) unless they hold `__`.
    """
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or not environ[name]:
            continue
        key = tuple(name.removeprefix(ENV_PREFIX).lower().split(NESTING))
        if key[0] in Config.model_fields or (len(key) > 1 and key[0]):
            yield name, key, _structured(environ[name])


def _structured(text: str) -> object:
    """Lists and mappings are written as JSON; everything else, a token of digits too, stays a text."""
    if text.strip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _put(data: dict[str, Any], key: KeyPath, value: object) -> None:
    for part in key[:-1]:
        inner = data.get(str(part))
        data[str(part)] = dict(inner) if isinstance(inner, dict) else {}
        data = data[str(part)]
    data[str(key[-1])] = value


def _check_lacks(data: Mapping[str, Any], sources: _Sources, lenient: Explainer | None) -> None:
    """Refuse values whose variables are not set: all, or `lenient` only those that are no secrets."""
    found = [
        (key, message)
        for key, text in _texts(data)
        for message in lacks_in(text)
        if lenient is None or not lenient.is_secret(key)
    ]
    if found:
        found.sort(key=lambda lack: sources.position(lack[0]))
        raise ConfigError("\n".join(dict.fromkeys(message for _, message in found)))


def _texts(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, item in value.items():
                yield from _texts(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, (*path, index))


def _checked(data: dict[str, Any], model: type[Config], explainer: Explainer, sources: _Sources) -> Config:
    known = list(Config.model_fields)
    # Taken out first: BaseSettings would take a key like `_env_file` as an instruction to itself.
    found: list[tuple[KeyPath, str]] = [
        ((key,), unknown_key(key, known)) for key in data if key not in Config.model_fields
    ]
    accepted = {key: value for key, value in data.items() if key in Config.model_fields}
    config: Config | None = None
    try:
        config = model(**accepted)
    except ValidationError as error:
        for detail in relevant(error.errors(include_url=False)):
            key = place(detail["loc"])
            found.append((key, explainer.sentence(detail, quotable=sources.quotable(key))))
    if config is not None and not found:
        return config
    found.sort(key=lambda problem: sources.position(problem[0]))
    message = "\n".join(dict.fromkeys(sources.line(key, text) for key, text in found))
    raise ConfigError(without(message, explainer.secrets()))


def _check_passed_on(config: Config, environ: Mapping[str, str], sources: _Sources) -> None:
    """Refuse to hand a secret of ours to a step by way of the environment (P8)."""
    secrets = set(config.secrets())
    leaks = [
        sources.line(
            key,
            f"{variable} holds a secret of agentsmith itself, which no step may see; "
            "give the steps a credential of their own, under another name",
        )
        for key, names in _allow_lists(config)
        for variable in names
        if environ.get(variable) in secrets
    ]
    if leaks:
        raise ConfigError("\n".join(leaks))


def _allow_lists(config: Config) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    """Where names of variables stand that steps may see; the presets' only where a pipeline uses them."""
    used = {config.run.agent}
    for name, pipeline in config.pipelines.items():
        yield ("pipelines", name, "env"), pipeline.env
        for index, step in enumerate(pipeline.steps):
            match step.settings:
                case CommandSettings(env=env):
                    yield ("pipelines", name, "steps", index, "env"), env
            match step.settings:
                case AgentSettings(agent=str(agent)):
                    used.add(agent)
    for name in sorted(used):
        yield ("agents", name, "env"), config.agents[name].env

"""`agentsmith init`: a first configuration that works, written in a dozen lines or fewer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer
import yaml
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from agentsmith.cli import output
from agentsmith.config import PRESETS, TrackerSettings, load
from agentsmith.config.described import descriptions
from agentsmith.config.steps import NEEDS_CODE
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import DEFAULT_PREFIX
from agentsmith.trackers import forges, registry

DEFAULT_FILE: Final = Path("agentsmith.yaml")
_LOCAL: Final = "local"
_PLACEHOLDER: Final = "https://git.example.com/your/repository.git"
_SECRETS: Final = ("token",)
"""What is asked for although a platform may do with something else (an app, say)."""


def init(
    file: Path | None,
    *,
    platform: str | None,
    given: Mapping[str, str],
    pipeline: str | None,
    run: str | None,
    code: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the file; whatever is not told is asked for on a terminal, and has a default elsewhere."""
    target = file or DEFAULT_FILE
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already; give another name with --config, or --force to replace it")
    if run is not None and pipeline is not None:
        raise ConfigError("--run is a pipeline of your own and --pipeline one that is there already; give one of them")
    asks = sys.stdin.isatty() and not any((platform, given, pipeline, run, as_json))
    known = registry.settings_models()
    chosen = platform or (_ask(f"Where are your tickets ({', '.join(known)})", _LOCAL) if asks else _LOCAL)
    if chosen not in known:
        raise ConfigError(f"there is no platform {chosen!r}; known: {', '.join(known)}")
    tracker, variables = _tracker(chosen, known[chosen], given, asks=asks)
    document = _with_code(_document(chosen, tracker, pipeline, run), chosen, code)
    text = _rendered(document)
    _check(target, text, variables)
    _report(target, variables, document, as_json=as_json)


def _tracker(
    platform: str, model: type[TrackerSettings], given: Mapping[str, str], *, asks: bool
) -> tuple[dict[str, str], list[str]]:
    """The tracker's block, and the environment variables that it needs."""
    fields = model.model_fields
    if unknown := [name for name in given if name not in fields]:
        raise ConfigError(f"a tracker on {platform} has no {unknown[0]}; leave out --{unknown[0].replace('_', '-')}")
    block, variables = {"platform": platform}, []
    for name, field in fields.items():
        if name == "platform":
            continue
        if _is_secret(field) and (field.is_required() or name in _SECRETS):
            variable = f"{re.sub('[^A-Z]', '_', platform.upper())}_{name.upper()}"
            block[name] = f"${{{variable}}}"
            variables.append(variable)
        elif name in given:
            block[name] = given[name]
        elif field.is_required():
            block[name] = _required(platform, name, descriptions(model).get(name, ""), asks=asks)
    return block, variables


def _is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation) or field.annotation is SecretStr


def _required(platform: str, name: str, said: str, *, asks: bool) -> str:
    about = said.split("\n", 1)[0].rstrip(".")
    if asks:
        return _ask(f"{name} ({about})" if about else name, None)
    raise ConfigError(f"a tracker on {platform} needs --{name.replace('_', '-')}" + (f": {about}" if about else ""))


def _ask(what: str, default: str | None) -> str:
    answer: str = typer.prompt(what, default=default, err=True)
    return answer.strip()


def _document(platform: str, tracker: Mapping[str, str], pipeline: str | None, run: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"trackers": {platform: dict(tracker)}}
    if run is not None:
        # Without triggers, the label prefix starts the first pipeline; that keeps the file short.
        return {**document, "pipelines": {"work": {"steps": [{"run": run}]}}}
    name = pipeline or "hello"
    if name not in ("hello", *PRESETS):
        raise ConfigError(f"there is no pipeline {name!r}; known: hello, {', '.join(PRESETS)}; or give --run")
    return {**document, "triggers": [{"label": DEFAULT_PREFIX, "pipeline": name}]}


def _with_code(document: dict[str, Any], platform: str, url: str | None) -> dict[str, Any]:
    """The same with a repository, where the label starts work on code and the platform has none beside its tickets."""
    starts = [PRESETS[t["pipeline"]] for t in document.get("triggers", ()) if t["pipeline"] in PRESETS]
    wanted = any(step.kind in NEEDS_CODE and str(step.condition) == "success" for it in starts for step in it.steps)
    if platform in forges.settings_models() or not (wanted or url):
        return document
    trackers = {platform: {**document["trackers"][platform], "code": "code"}}
    repositories = {"code": {"platform": "git", "url": url or _PLACEHOLDER}}
    return {**document, "trackers": trackers, "repositories": repositories}


def _rendered(document: Mapping[str, Any]) -> str:
    """Trackers line by line, because people change those; of the rest an entry is a line."""
    parts = [
        yaml.safe_dump(
            {name: part},
            sort_keys=False,
            allow_unicode=True,
            width=1000,
            default_flow_style=None if name in ("repositories", "triggers") else False,
        )
        for name, part in document.items()
    ]
    return "".join(parts)


def _check(target: Path, text: str, variables: list[str]) -> None:
    """Write it, and read it back as agentsmith will; what is wrong with it is said now, and nothing is left."""
    before = target.read_bytes() if target.exists() else None
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}; name another file with --config") from None
    environ = {**dict.fromkeys(variables, "not-set-yet"), **os.environ}
    try:
        load(target, platforms=registry.settings_models(), hosts=forges.settings_models(), environ=environ)
    except (ConfigError, ValidationError):
        if before is None:
            target.unlink()
        else:
            target.write_bytes(before)
        raise


def _report(target: Path, variables: list[str], document: Mapping[str, Any], *, as_json: bool) -> None:
    missing = [variable for variable in variables if not os.environ.get(variable)]
    if as_json:
        output.json_result({"file": str(target), "config": document, "variables": variables, "unset": missing})
        return
    output.say(f"{target} is written:")
    output.say()
    for line in target.read_text().splitlines():
        output.say(f"  {line}")
    output.say()
    output.say("Next:")
    if _PLACEHOLDER in target.read_text():
        output.say(f"  put the address of your repository in the place of {_PLACEHOLDER}")
    for variable in missing:
        output.say(f"  export {variable}=…")
    named = "" if target == DEFAULT_FILE else f" --config {target}"
    output.say(f"  agentsmith doctor{named}")
    output.say(f"  agentsmith up{named}")
    output.say(f"and then set the label {DEFAULT_PREFIX} on a ticket.")

"""The example file, the reference page and the schema say what the models say."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from agentsmith.config import Config, Step, TrackerSettings, json_schema, load
from agentsmith.config.document import read_document
from agentsmith.config.steps import RunSettings
from agentsmith.trackers import registry
from tests.support.config_platforms import HOME, HOSTS, PLATFORMS, Hosted, load_text

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"
PAGE = ROOT / "docs" / "configuration.md"
COMMENTED_OUT = re.compile(r"^( *)# ( *(?:- )?[a-z_]+:(?: .*)?)$", re.MULTILINE)
IN_THE_FILE_OTHERWISE: dict[type[BaseModel], set[str]] = {Step: {"kind", "settings", "condition"}}
"""Fields that are written in another way: `run: make` is kind and settings, and `if` the condition."""


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model and everything inside it."""
    yield model
    for field in model.model_fields.values():
        yield from (found for inner in _inside(field.annotation) for found in models(inner))


def _inside(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _inside(inner)


def fields() -> list[tuple[str, str]]:
    return sorted(
        {
            (model.__name__, name)
            for model in models(Config)
            for name in model.model_fields
            if name not in IN_THE_FILE_OTHERWISE.get(model, ())
        }
    )


def uncommented() -> str:
    return COMMENTED_OUT.sub(r"\1\2", EXAMPLE.read_text())


def test_the_example_is_exactly_the_defaults(tmp_path: Path) -> None:
    assert load(EXAMPLE, platforms=PLATFORMS, hosts=HOSTS, environ=HOME) == load_text(tmp_path, "")


@pytest.mark.parametrize(("model", "name"), fields())
def test_the_example_shows_every_setting(model: str, name: str) -> None:
    assert re.search(rf"^ *(?:# *)?(?:- )?{name}:", EXAMPLE.read_text(), re.MULTILINE), f"{model}.{name}"


@pytest.mark.parametrize(("model", "name"), fields())
def test_the_page_names_every_setting(model: str, name: str) -> None:
    assert re.search(rf"(?<![a-z_]){name}(?![a-z_])", PAGE.read_text()), f"{model}.{name}"


def test_what_is_commented_out_is_valid_too() -> None:
    variables = set(re.findall(r"\$\{([A-Z_]+)\}", uncommented()))
    data = read_document(uncommented().encode(), dict.fromkeys(variables, "filled-in")).data
    trackers = data["trackers"]
    assert isinstance(trackers, dict)
    assert {entry["platform"] for entry in trackers.values()} == {"local", "github", "gitlab", "azure-devops", "jira"}
    keys = {key for entry in trackers.values() for key in entry}
    assert keys >= set(TrackerSettings.model_fields) | {"repository", "project", "organization", "token", "email"}


def test_the_commented_settings_load(tmp_path: Path) -> None:
    hosts = re.compile(r"^  (?:apps|shop|board|desk|ops):\n(?:    .*\n)+", re.MULTILINE)
    text = hosts.sub("", uncommented()).replace("${REDIS_URL}", "redis://localhost")
    variables = {
        "GITHUB_TOKEN": "t",
        "GITHUB_WEBHOOK_SECRET": "s",
        "GITLAB_TOKEN": "l",
        "GIT_TOKEN": "g",
        "API_TOKEN": "a",
    }
    (tmp_path / "agentsmith.env").touch()
    config = load_text(tmp_path, text, variables)
    assert isinstance(config.trackers["web"], Hosted)
    assert config.claim.capacity == 20
    assert config.code_of("web") == ("website", config.repositories["website"])
    assert config.triggers[0].tracker == ("web",)


def test_the_first_file_of_the_page_works_and_is_short(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    assert len(found[1].splitlines()) <= 12
    config = load_text(tmp_path, found[1], {"GITHUB_TOKEN": "t"})
    assert [(t.label, t.pipeline) for t in config.triggers] == [("agent-smith", "fix")]


def test_the_step_forms_of_the_page_work(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(steps:\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    indented = "".join(f"    {line}\n" for line in found[1].splitlines())
    steps = load_text(tmp_path, f"pipelines:\n  p:\n{indented}").pipelines["p"].steps
    commands = [step.settings.command for step in steps if isinstance(step.settings, RunSettings)]
    assert commands == ["make test", ("make", "--jobs", "4", "test"), "./deploy"]


def test_the_schema_lets_the_platform_decide() -> None:
    schema = json_schema(PLATFORMS, HOSTS)
    assert schema["properties"]["repositories"]["additionalProperties"]["oneOf"] == [
        {"$ref": "#/$defs/repository-git"},
        {"$ref": "#/$defs/repository-gitlab"},
    ]
    assert schema["properties"]["trackers"]["additionalProperties"]["oneOf"] == [
        {"$ref": "#/$defs/tracker-github"},
        {"$ref": "#/$defs/tracker-local"},
    ]
    assert schema["$defs"]["tracker-github"]["properties"]["platform"] == {"const": "github"}
    assert schema["$defs"]["tracker-github"]["required"] == ["platform", "repository", "token"]
    assert schema["additionalProperties"] is False
    number, text = schema["$defs"]["Lease"]["properties"]["ttl"]["anyOf"]
    assert number["type"] == "number"
    assert re.search(text["pattern"], "2m")
    assert re.search(text["pattern"], "${TTL}")
    assert not re.search(text["pattern"], "soon")
    assert schema["$defs"]["Allow"]["properties"]["access"]["default"] == "write"


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema(PLATFORMS, HOSTS)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (EXAMPLE.read_text(), True),
        ("server: {port: '${PORT}'}\nlease: {ttl: 5}\nallow: {users: alice}", True),
        ("trackers: {w: {platform: github, repository: a/b, token: '${T}', webhook_secret: [a, b]}}", True),
        ("server: {prot: 1}", False),
        ("server: {port: many}", False),
        ("lease: {ttl: soon}", False),
        ("trackers: {w: {platform: github, repository: a/b}}", False),
        ("trackers: {w: {platform: local, token: x}}", False),
        ("trackers: {W: {platform: local}}", False),
        ("repositories: {r: {platform: git, url: /srv/r.git}}\ntrackers: {t: {platform: local, code: r}}", True),
        ("repositories: {r: {platform: gitlab, project: a/b, token: '${T}'}}", True),
        ("repositories: {r: {platform: gitlab, url: /srv/r.git}}", False),
        ("repositories: {r: {url: /srv/r.git}}", False),
        ("pipelines: {p: {steps: [rnu: x]}}", False),
        ("pipelines: {p: {steps: [{run: x, timeout: 5m, name: y}, run: [a, 1]]}}", True),
        ("pipelines: {p: {steps: []}}", False),
    ],
)
def test_the_schema_agrees_with_the_models(validator: Any, text: str, good: bool) -> None:
    variables = {"PORT": "${PORT}", "T": "${T}"}  # as an editor sees it: not filled in
    data = read_document(text.encode(), variables).data
    assert validator.is_valid(data) is good


# --- the platforms' own settings -----------------------------------------------------------------------------------


def of_platforms() -> list[tuple[str, str]]:
    """Every setting that only one platform has."""
    return [
        (platform, name)
        for platform, model in registry.settings_models().items()
        for name in model.model_fields
        if name not in TrackerSettings.model_fields
    ]


def blocks() -> dict[str, dict[str, Any]]:
    """The trackers of the example, with what is commented out."""
    filled = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)\}", uncommented()), "filled-in")
    trackers = read_document(uncommented().encode(), filled).data["trackers"]
    assert isinstance(trackers, dict)
    return trackers


@pytest.mark.parametrize(("platform", "name"), of_platforms())
def test_every_setting_of_a_platform_is_in_the_example_and_on_its_page(platform: str, name: str) -> None:
    assert any(name in block for block in blocks().values() if block["platform"] == platform)
    page = ROOT / "docs" / "trackers" / f"{platform}.md"
    text = page.read_text() if page.exists() else PAGE.read_text()
    assert re.search(rf"(?<![a-z_]){name}(?![a-z_])", text)


@pytest.mark.parametrize("name", blocks())
def test_every_tracker_of_the_example_can_be_made(name: str, tmp_path: Path) -> None:
    block = {key: value for key, value in blocks()[name].items() if key != "code"}
    file = tmp_path / "agentsmith.yaml"
    file.write_text(yaml.safe_dump({"trackers": {name: block}}))
    config = load(file, platforms=registry.settings_models(), environ=HOME)
    assert config.trackers[name].project_identity()


@pytest.mark.parametrize("platform", sorted(registry.settings_models()))
def test_the_first_file_of_a_platforms_page_works(platform: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / "trackers" / f"{platform}.md"
    if platform == "local":
        assert not page.exists()
        return
    found = re.search(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    assert found
    file = tmp_path / "agentsmith.yaml"
    file.write_text(textwrap.dedent(found[1]))
    variables = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)\}", found[1]), "filled-in")
    config = load(file, platforms=registry.settings_models(), environ={**HOME, **variables})
    assert [settings.platform for settings in config.trackers.values()] == [platform]

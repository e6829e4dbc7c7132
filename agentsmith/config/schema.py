"""The JSON schema of the configuration file, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentsmith.config.models import NO_HOSTS, Config
from agentsmith.config.section import Section
from agentsmith.config.sections import RepositorySettings, TrackerSettings

_FILLED_IN: Final = {"type": "string", "pattern": r"\$\{"}
"""What stands for a number in the file when it comes from the environment: `port: ${PORT}`."""


def json_schema(
    platforms: Mapping[str, type[TrackerSettings]], hosts: Mapping[str, type[RepositorySettings]] = NO_HOSTS
) -> dict[str, Any]:
    """A JSON schema (draft 2020-12) in which `platform` decides what else a tracker or a repository may hold."""
    schema = Config.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    for key, one, general, known in (
        ("trackers", "tracker", TrackerSettings, platforms),
        ("repositories", "repository", RepositorySettings, hosts),
    ):
        definitions.pop(general.__name__, None)
        schema["properties"][key] |= {
            "additionalProperties": bool(known)
            and {"required": ["platform"], "oneOf": _choices(one, known, definitions)},
            "propertyNames": {"pattern": "^[a-z0-9][a-z0-9_-]*$"},
        }
    relaxed: dict[str, Any] = _relaxed(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentsmith configuration",
        **relaxed,
    }


def _choices(kind: str, known: Mapping[str, type[Section]], definitions: dict[str, Any]) -> list[dict[str, str]]:
    """References to what each platform may hold; what they refer to is added to the definitions."""
    choices = []
    for platform, settings in sorted(known.items(), key=lambda item: item[0]):
        one = settings.model_json_schema()
        definitions.update(one.pop("$defs", {}))
        one["properties"]["platform"] = {"const": platform}
        one["required"] = sorted({*one.get("required", ()), "platform"})
        definitions[f"{kind}-{platform}"] = one
        choices.append({"$ref": f"#/$defs/{kind}-{platform}"})
    return choices


def _relaxed(node: Any) -> Any:
    """The schema as the file is read: numbers may come from the environment; titles that repeat the key go."""
    if isinstance(node, list):
        return [_relaxed(item) for item in node]
    if not isinstance(node, dict):
        return node
    if any(choice.get("type") == "string" for choice in node.get("anyOf", ())):
        return {key: item for key, item in node.items() if key != "title"}
    kept = {key: _relaxed(item) for key, item in node.items() if key != "title" or not isinstance(item, str)}
    if kept.get("type") not in ("integer", "number", "boolean"):
        return kept
    beside = {key: kept.pop(key) for key in ("default", "description") if key in kept}
    return {"anyOf": [kept, _FILLED_IN], **beside}

"""Names and addresses in the configuration: what is allowed, and why, in one sentence each."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, WithJsonSchema

from agentsmith.config.lacking import lacks_in
from agentsmith.domain.filters import Query
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Access

_TRACKER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_PIPELINE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS: Final = "AGENTSMITH_"

LONGEST_LABEL: Final = 50
"""GitHub's limit, the tightest of the four platforms."""
_LONGEST_PREFIX: Final = LONGEST_LABEL - max(len(f":{status.value}") for status in Status)


def choices(name: str, known: Iterable[str]) -> str:
    """`; did you mean `server`? Known: redis, server`, or only what is known when nothing is near."""
    names = list(known)
    found = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f"; did you mean `{found[0]}`? Known: {', '.join(names)}" if found else f"; known: {', '.join(names)}"


def several(value: object) -> object:
    """A list, where the file may hold one text instead; `a, b` is two names."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _one_secret(value: object) -> object:
    return [value] if isinstance(value, str | SecretStr) else value


def _secrets(value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    # An empty secret would authenticate everybody (P7).
    if any(not secret.get_secret_value().strip() for secret in value):
        raise ValueError("is empty; set the secret, or leave the key out to refuse webhooks")
    return value


def _not_empty(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().strip():
        raise ValueError("is empty; set it, most likely in the environment")
    return secret


_ONE_OR_SEVERAL: Final[dict[str, Any]] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

Names = Annotated[tuple[str, ...], BeforeValidator(several), WithJsonSchema(_ONE_OR_SEVERAL)]
"""One name or several."""

Secret = Annotated[SecretStr, AfterValidator(_not_empty)]
"""A credential."""

Secrets = Annotated[
    tuple[SecretStr, ...],
    BeforeValidator(_one_secret),
    AfterValidator(_secrets),
    WithJsonSchema(_ONE_OR_SEVERAL),
]
"""One secret or several: the new one first while rotating. None of them is empty."""


def _access(value: object) -> object:
    if isinstance(value, Access):
        return value
    words = [access.name.lower() for access in Access]
    if isinstance(value, str) and value.lower() in words:
        return Access[value.upper()]
    raise ValueError(f"is not a level of access{choices(str(value), words)}")


AccessName = Annotated[
    Access,
    BeforeValidator(_access),
    PlainSerializer(lambda access: access.name.lower(), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "enum": [access.name.lower() for access in Access]}),
]


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not pattern.fullmatch(name):
            raise ValueError(what)
        return name

    return check


TrackerName = Annotated[
    str,
    AfterValidator(
        _matching(
            _TRACKER,
            "is not a tracker name; use up to 63 of a-z, 0-9, - and _, starting with a letter or digit",
        )
    ),
]
RepositoryName = Annotated[
    str,
    AfterValidator(
        _matching(
            _TRACKER,
            "is not a repository name; use up to 63 of a-z, 0-9, - and _, starting with a letter or digit "
            "(where the repository is stands in the settings below it)",
        )
    ),
]
PipelineName = Annotated[
    str,
    AfterValidator(
        _matching(
            _PIPELINE,
            "is not a pipeline name; use up to 63 letters, digits, '.', '-' and '_', starting with a letter or digit",
        )
    ),
]
Namespace = Annotated[
    str,
    AfterValidator(_matching(_NAMESPACE, "is not a namespace; use up to 63 letters, digits, '.', '-' and '_'")),
]


def passed_on(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they are, if each is an environment variable that may be handed to a step."""
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError("must list names of environment variables (letters, digits and _), without values")
        if name.startswith(_OURS):
            # These may hold the daemon's own secrets (P8), and would shadow what a step is told.
            raise ValueError(f"lists {name}, but variables that start with {_OURS} are never passed on; rename it")
    return names


def legal_prefix(prefix: str) -> str:
    """The prefix as it is, if `prefix:status` is a legal label on every platform."""
    if not prefix:
        raise ValueError("is empty; use something like agent-smith")
    if len(prefix) > _LONGEST_PREFIX:
        raise ValueError(
            f"has {len(prefix)} characters, but at most {_LONGEST_PREFIX} fit: with the status behind it "
            f"a label may have {LONGEST_LABEL} on GitHub"
        )
    if "::" in prefix or not (prefix[0].isalnum() and (prefix[-1].isalnum() or prefix[-1] in "-_.")):
        # `scope::name` is special on GitLab: setting one removes every other label of the scope (P3).
        raise ValueError("must start with a letter or digit, not end with ':' or '/', and hold no '::'")
    for char in prefix:
        if not (char.isalnum() or char in "-_.:/") or ord(char) > 0xFFFF:
            raise ValueError(
                f"holds {char!r}, which is not legal in labels everywhere; "
                "use letters, digits, '-', '_', '.', ':' and '/'"
            )
    return prefix


def legal_label(label: str) -> str:
    """The label without surrounding spaces, if people can set it on a ticket."""
    label = label.strip()
    if not label:
        raise ValueError("is empty; name the label that starts the pipeline")
    if len(label) > 255 or any(ord(char) < 32 or ord(char) == 127 for char in label):
        raise ValueError("is not a label; use one line of at most 255 characters")
    if "," in label or ";" in label:
        raise ValueError("holds ',' or ';', which separate labels on GitLab and Azure DevOps; use another name")
    return label


def legal_link(address: str) -> str:
    """The address as it is, if it is one that a browser opens and has a place for the run's name."""
    if not address.startswith(("https://", "http://")) or not address.isprintable() or " " in address:
        raise ValueError("must be an address that starts with https:// or http://")
    if "{run}" not in address or address.replace("{run}", "").count("{"):
        raise ValueError("must hold `{run}`, and no other `{…}`: https://runs.example/{run}")
    return address


def legal_query(text: str) -> str:
    """The query as it is, if it asks for anything."""
    Query.of(text)
    return text


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"holds {text!r}, which is no address; write 10.0.0.5 or 10.0.0.0/8") from None
    return texts


Networks = Annotated[Names, AfterValidator(_networks)]
"""Addresses and networks: `10.0.0.5`, `10.0.0.0/8`."""


def _public_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError("is not the address of a server; write https://agentsmith.example.com, nothing behind it")
    return url.rstrip("/")


PublicUrl = Annotated[str, AfterValidator(_public_url)]
"""An address below which platforms can send webhooks; without a slash at the end."""


def legal_address(secret: SecretStr) -> SecretStr:
    """The address as it is, if it names a Redis that we know how to reach. The address is never quoted."""
    url = secret.get_secret_value()
    if lacks_in(url):
        return secret  # whoever wants to use it hears of it
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2]
        tail = parts.path.strip("/").split("/")
        match parts.scheme:
            case "redis" | "rediss":
                good = bool(parts.hostname) and parts.port != 0 and len(tail) == 1 and _database(tail[0])
            case "unix":
                good = parts.path.startswith("/") and len(parts.path) > 1
            case "redis+sentinel":
                good = (
                    all(_host_and_port(host) for host in hosts.split(","))
                    and tail[0] != ""
                    and len(tail) <= 2
                    and _database("".join(tail[1:]))
                )
            case _:
                good = False
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            "is not the address of a Redis; write redis://host:6379/0, rediss://…, unix:///path/to/socket or "
            "redis+sentinel://host:26379,host:26379/service"
        )
    return secret


def _database(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal())


def _host_and_port(text: str) -> bool:
    parts = urlsplit(f"//{text}")
    return bool(parts.hostname) and parts.port != 0


def absolute(path: Path) -> Path:
    """The path with `~` filled in, absolute from the working directory."""
    if "\0" in str(path) or not str(path).strip() or path == Path():
        raise ValueError("is not a folder; write a path, absolute or from the working directory")
    try:
        return Path(os.path.abspath(path.expanduser()))
    except RuntimeError:
        raise ValueError("starts with ~, but there is no such home folder; write the path in full") from None


def default_data_dir(environ: Mapping[str, str], *, system: str = sys.platform) -> Path:
    """The user's data folder for agentsmith: XDG on Linux, Application Support on macOS."""
    home = Path(environ["HOME"]) if environ.get("HOME") else Path("~")
    if system == "darwin":
        return home / "Library" / "Application Support" / "agentsmith"
    data = Path(environ.get("XDG_DATA_HOME", ""))
    # The XDG rules say that a relative value is to be ignored.
    return (data if data.is_absolute() else home / ".local" / "share") / "agentsmith"

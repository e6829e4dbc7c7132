"""Loading: sources and their precedence, defaults, forms of values, and what a Config offers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentsmith.config import (
    HELLO,
    PRESETS,
    Config,
    Duration,
    Grace,
    Lease,
    Step,
    TrackerSettings,
    find_file,
    load,
)
from agentsmith.config.names import default_data_dir
from agentsmith.config.steps import RunSettings
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Access
from tests.support.config_platforms import HOME, HOSTS, PLATFORMS, Hosted, Local, load_text

WEB = """
trackers:
  web: {platform: github, repository: acme/web, token: "${TOKEN}", webhook_secret: [new-secret, old-secret]}
redis:
  url: redis://user:pass%2Fword@example:6379/0
"""


def commanded(step: Step) -> object:
    """The command of a `run` step."""
    assert isinstance(step.settings, RunSettings)
    return step.settings.command


def defaults() -> Config:
    return load(None, platforms=PLATFORMS, hosts=HOSTS, environ=HOME)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_file_the_first_minute_works() -> None:
    config = defaults()
    assert config.data_dir == Path("/home/tester/.local/share/agentsmith")
    assert list(config.trackers) == ["local"]
    assert config.trackers["local"] == Local()
    assert config.pipelines == {"hello": HELLO, **PRESETS}
    assert [(t.label, t.pipeline, t.tracker) for t in config.triggers] == [("agent-smith", "hello", None)]
    assert "$AGENTSMITH_TICKET_TITLE" in str(HELLO.steps[0].settings)
    assert config.labels == LabelSet("agent-smith")


def test_the_defaults_are_those_that_the_documents_promise() -> None:
    config = defaults()
    assert config.lease.model_dump() == {"ttl": 120, "renew_every": 30, "margin": 20, "claim_lock": 30, "leader": 30}
    assert config.consumer.model_dump() == {
        "slots": 2,
        "drain_timeout": 30,
        "kill_grace": 5,
        "max_attempts": 3,
        "max_deliveries": 3,
        "stop_poll": 0.5,
    }
    assert config.run.model_dump() == {
        "timeout": 7200,
        "step_timeout": 3600,
        "stall_timeout": 1800,
        "log_limit": 10 * 1024**2,
        "artifact_limit": 50 * 1024**2,
        "retry_backoff": 60,
        "agent": "claude",
        "comment_every": 60,
        "checkpoint_every": None,
        "link": None,
        "runner": "process",
        "user": None,
        "limits": {"memory": None, "cpus": None, "processes": None, "cgroup": None},
        "keep_for": 30 * 86400,
        "keep_size": 2 * 1024**3,
    }
    assert config.claim.model_dump() == {
        "loop_limit": {"claims": 10, "per": 3600},
        "capacity": None,
        "retry_backoff": 5,
    }
    assert config.housekeeping.model_dump() == {
        "sweep_every": 5,
        "stale_every": 60,
        "reconcile_every": 600,
        "heal_every": 300,
        "tidy_every": 3600,
    }
    assert config.workspaces.model_dump() == {
        "keep_for": 14 * 86400,
        "keep_unsaved_for": 60 * 86400,
        "keep_size": 20 * 1024**3,
    }
    assert config.allow.model_dump() == {
        "access": Access.WRITE,
        "users": (),
        "teams": (),
        "roles": (),
        "bots": False,
        "edits": "vetted",
    }
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8080)
    assert (config.redis.url, config.redis.server, config.redis.namespace) == (None, None, "agentsmith")
    assert TrackerSettings(platform="x").poll_interval == Duration(60)


def test_making_a_config_by_hand_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSMITH_SERVER__PORT", "9")
    assert Config().server.port == 8080


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    text = "server: {host: from-file, port: 1}\nlog: {level: debug}\n"
    environ = {"AGENTSMITH_SERVER__PORT": "2", "AGENTSMITH_SERVER__HOST": "from-environment"}
    config = load_text(tmp_path, text, environ, {"server.port": 3, "server.host": None})
    assert (config.server.port, config.server.host, config.log.level) == (3, "from-environment", "debug")
    assert config.log.format == "auto"


def test_the_environment_reaches_every_level(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        WEB,
        {
            "TOKEN": "t",
            "AGENTSMITH_DATA_DIR": "/srv/agentsmith",
            "AGENTSMITH_TRACKERS__WEB__TOKEN": "12345",
            "AGENTSMITH_TRACKERS__WEB__ALLOW__USERS": "alice, bob",
            "AGENTSMITH_CLAIM__LOOP_LIMIT__PER": "2h",
            "AGENTSMITH_TRIGGERS": '[{"label": "fix", "pipeline": "hello"}]',
            "AGENTSMITH_REDIS__SERVER": "",
            "AGENTSMITH_TICKET_TITLE": "not a setting",
            "AGENTSMITH_RUN_ID": "not a setting either",
        },
    )
    web = config.trackers["web"]
    assert isinstance(web, Hosted)
    assert web.token.get_secret_value() == "12345"
    assert config.allow_for("web").users == ("alice", "bob")
    assert config.data_dir == Path("/srv/agentsmith")
    assert config.claim.loop_limit.per == Duration(7200)
    assert [t.label for t in config.triggers] == ["fix"]
    assert config.redis.server is None


def test_the_built_in_tracker_needs_no_platform_under_its_own_name() -> None:
    environ = HOME | {"AGENTSMITH_TRACKERS__LOCAL__POLL_INTERVAL": "100ms"}
    config = load(None, platforms=PLATFORMS, environ=environ)
    assert config.trackers == {"local": Local(poll_interval=Duration(0.1))}


def test_the_file_is_found_in_the_documented_order(tmp_path: Path) -> None:
    assert find_file(None, {}) is None
    (tmp_path / "agentsmith.yaml").write_text("")
    assert find_file(None, {"AGENTSMITH_CONFIG": ""}) == Path("agentsmith.yaml")
    assert find_file(None, {"AGENTSMITH_CONFIG": "other.yaml"}) == Path("other.yaml")
    assert find_file(Path("given.yaml"), {"AGENTSMITH_CONFIG": "other.yaml"}) == Path("given.yaml")


def test_variables_are_filled_in_but_not_in_commands(tmp_path: Path) -> None:
    text = """
label_prefix: ${PREFIX:-bot}
server: {host: "${HOST}", port: "${PORT:-81}"}
redis: {server: "a$$b$c"}
pipelines:
  one:
    steps:
      - run: echo "${NAME:-x}" $$
      - run: [echo, "${NAME}"]
"""
    config = load_text(tmp_path, text, {"HOST": "h${x}", "PREFIX": ""})
    assert (config.label_prefix, config.server.host, config.server.port) == ("bot", "h${x}", 81)
    assert config.redis.server == "a$b$c"
    assert [commanded(step) for step in config.pipelines["one"].steps] == ['echo "${NAME:-x}" $$', ("echo", "${NAME}")]


def test_every_form_of_a_step(tmp_path: Path) -> None:
    text = """
pipelines:
  one:
    env: HTTPS_PROXY
    timeout: 1h
    steps:
      - run: |

          make "a thing"
          make test
      - run: [sleep, 1]
      - run: ./deploy
        name: deploy
        timeout: 90s
"""
    pipeline = load_text(tmp_path, text).pipelines["one"]
    assert pipeline.env == ("HTTPS_PROXY",)
    assert pipeline.timeout == Duration(3600)
    assert pipeline.steps[0].name == 'make "a thing"'
    assert pipeline.steps[1] == Step(kind="run", settings=RunSettings(command=("sleep", "1")), name="sleep 1")
    assert pipeline.steps[2] == Step(
        kind="run", settings=RunSettings(command="./deploy"), name="deploy", timeout=Duration(90)
    )


def test_a_long_command_is_shortened_in_its_name(tmp_path: Path) -> None:
    step = load_text(tmp_path, f"pipelines: {{p: {{steps: [run: 'make {'x' * 100}']}}}}").pipelines["p"].steps[0]
    assert len(step.name) == 60
    assert step.name.endswith("…")


def test_triggers_can_be_for_some_trackers_only(tmp_path: Path) -> None:
    text = """
trackers: {a: {platform: local}, b: {platform: local, project: other}}
triggers:
  - {label: fix, pipeline: hello, tracker: a}
  - {label: fix, pipeline: hello, tracker: [b]}
  - {label: all, pipeline: hello}
allow: {access: triage}
"""
    config = load_text(tmp_path, text)
    assert [t.label for t in config.triggers_for("a")] == ["fix", "all"]
    assert config.triggers_for("b") == config.triggers[1:]
    assert config.allow_for("a").access is Access.TRIAGE


def test_empty_files_and_sections_mean_the_defaults(tmp_path: Path) -> None:
    for text in ("", "# only a comment\n", "---\n", "~", "server:\ntrackers:\nredis:\n  url:\n", "\ufeff"):
        assert load_text(tmp_path, text) == defaults()


def test_plain_values_follow_yaml_1_2(tmp_path: Path) -> None:
    text = 'allow: {users: [on, no, 012, 1:30, "5"], bots: yes}\nredis: {server: 2001-01-01}'
    config = load_text(tmp_path, text)
    assert config.allow.users == ("on", "no", "012", "1:30", "5")
    assert config.allow.bots is True
    assert config.redis.server == "2001-01-01"


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    text = """
pipelines:
  one: &base
    timeout: 1m
    steps: [run: a]
  two:
    <<: *base
    timeout: 2m
"""
    config = load_text(tmp_path, text)
    assert config.pipelines["two"].steps == config.pipelines["one"].steps
    assert [config.pipelines[name].timeout for name in ("one", "two")] == [Duration(60), Duration(120)]


def test_secrets_are_listed_but_never_shown(tmp_path: Path) -> None:
    config = load_text(tmp_path, WEB, {"TOKEN": "t0ken-value"})
    found = set(config.secrets())
    assert {"t0ken-value", "new-secret", "old-secret", "pass%2Fword", "pass/word"} <= found
    shown = repr(config) + str(config) + config.model_dump_json()
    assert not [secret for secret in found if secret in shown]


def test_scaled_multiplies_every_duration_and_nothing_else(tmp_path: Path) -> None:
    text = (
        WEB + "pipelines: {p: {timeout: 10s, steps: [{run: x, timeout: 4s}]}}\nconsumer: {slots: 4, drain_timeout: 0}"
    )
    config = load_text(tmp_path, text, {"TOKEN": "t"})
    fast = config.scaled(0.01)
    assert fast.lease == Lease(
        ttl=Duration(1.2),
        renew_every=Duration(0.3),
        margin=Duration(0.2),
        claim_lock=Duration(0.3),
        leader=Duration(0.3),
    )
    assert fast.pipelines["p"].timeout == pytest.approx(0.1)
    assert fast.pipelines["p"].steps[0].timeout == pytest.approx(0.04)
    assert fast.trackers["web"].poll_interval == pytest.approx(0.6)
    assert fast.claim.loop_limit.per == pytest.approx(36)
    assert (fast.consumer.slots, fast.consumer.drain_timeout, fast.run.log_limit) == (4, Grace(0), config.run.log_limit)
    assert isinstance(fast.trackers["web"], Hosted)
    assert config.lease.ttl == Duration(120)
    for factor in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="factor"):
            config.scaled(factor)


def test_nothing_can_be_changed_after_loading() -> None:
    config = defaults()
    for part, name in ((config, "label_prefix"), (config.lease, "ttl"), (config.trackers["local"], "project")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, name, "x")


def test_loading_twice_gives_equal_configs(tmp_path: Path) -> None:
    assert load_text(tmp_path, WEB, {"TOKEN": "t"}) == load_text(tmp_path, WEB, {"TOKEN": "t"})


def test_the_data_folder_is_where_each_system_wants_it() -> None:
    assert default_data_dir({"HOME": "/h"}, system="darwin") == Path("/h/Library/Application Support/agentsmith")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "/x"}, system="linux") == Path("/x/agentsmith")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "rel"}, system="linux") == Path(
        "/h/.local/share/agentsmith"
    )


def test_a_relative_data_folder_counts_from_the_working_directory(tmp_path: Path) -> None:
    assert load_text(tmp_path, "data_dir: some/../data").data_dir == tmp_path / "data"


def test_a_dump_is_readable_and_json(tmp_path: Path) -> None:
    dumped = json.loads(load_text(tmp_path, WEB, {"TOKEN": "t"}).model_dump_json())
    assert dumped["lease"]["ttl"] == "2m"
    assert dumped["allow"]["access"] == "write"
    assert dumped["trackers"]["web"]["token"] == "**********"
    assert dumped["trackers"]["web"]["repository"] == "acme/web"


_KEYS = st.sampled_from([*Config.model_fields, "_env_file", "steps", "run", "platform", "web", "<<", "token"])
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("${X}"))
_TREES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=4)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=300), _TREES.map(json.dumps)))
@example(b"\xff\xfe")
@example("a: &a {b: *a}")
@example('{"_env_file": "/etc/passwd", "_cli_parse_args": true}')
@example("? [a]\n: b")
@example("run: !!int x")
def test_any_file_loads_or_is_a_config_error(tmp_path: Path, text: str | bytes) -> None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    told = [str(tmp_path / "agentsmith.yaml")]
    try:
        load_text(tmp_path, raw, {"X": "x"})
    except ConfigError as error:
        told = str(error).splitlines()
    assert told
    assert all(line.startswith(str(tmp_path / "agentsmith.yaml")) for line in told)


_NAMES = ["SERVER__PORT", "SERVER", "TRIGGERS", "REDIS__URL", "LEASE__TTL", "X__Y", "TRACKERS__W__TOKEN", "__"]


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(_NAMES), st.text(max_size=20) | st.sampled_from(["[", "[1]", '{"a": [[]]}', "[" * 5000])
    )
)
def test_any_environment_loads_or_is_a_config_error(variables: dict[str, str]) -> None:
    told = "environment variable AGENTSMITH_"
    try:
        load(None, platforms=PLATFORMS, environ=HOME | {f"AGENTSMITH_{k}": v for k, v in variables.items()})
    except ConfigError as error:
        told = str(error)
    assert "environment variable AGENTSMITH_" in told

"""What is said when a configuration is wrong: where, which key, what, and the remedy, in one line each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentsmith.config import Config, load
from agentsmith.domain.errors import ConfigError
from tests.support.config_platforms import HOME, PLATFORMS, load_text


def told(folder: Path, text: str | bytes, environ: dict[str, str] | None = None) -> list[str]:
    """The lines of the message, without the folder in front of the file's name."""
    with pytest.raises(ConfigError) as caught:
        load_text(folder, text, environ)
    return str(caught.value).replace(f"{folder}{os.sep}", "").splitlines()


TOP = ", ".join(Config.model_fields)
STEPS = "checkout, run, agent, verify, commit, push, pull_request, comment, label"
MAPPING = "must be a mapping: indented lines like `key: value`"
CONDITION = (
    "is not a condition: {}. Write success, failure, always, changes, repository, or `STEP succeeded`, `STEP failed`, "
    "`STEP skipped`; join them with and, or, not and ( )"
)
DURATION = "is not a duration; write a number with a unit: 500ms, 30s, 2m, 1h or 1d"
RUN = (
    "needs a command: a text (`run: make test`, run by sh -c) or a list of texts (`run: [make, test]`; quote "
    'what is not a text: "1.5")'
)

ONE_PROBLEM = {
    # Keys.
    "labl_prefix: x": f"1: labl_prefix: unknown key; did you mean `label_prefix`? Known: {TOP}",
    "_env_file: /etc/passwd": f"1: _env_file: unknown key; did you mean `env_file`? Known: {TOP}",
    "server:\n  # a comment\n  prot: 1": (
        "3: server.prot: unknown key; did you mean `port`? Known: host, port, public_url, api_token, trusted_proxies"
    ),
    "claim:\n  loop_limit:\n    clams: 1": (
        "3: claim.loop_limit.clams: unknown key; did you mean `claims`? Known: claims, per"
    ),
    "server:\n  port: 1\n  host: x\n  port: 2": "4: server.port: stands twice (first on line 2); keep one",
    # Kinds of values.
    "trackers: 0": f"1: trackers: {MAPPING}",
    "server: 5": f"1: server: {MAPPING}",
    "server:\n  port: eighty": "2: server.port: must be a whole number (found 'eighty')",
    "server:\n  port: 70000": "2: server.port: must be at most 65535 (found 70000)",
    "consumer:\n  slots: 0": "2: consumer.slots: must be at least 1 (found 0)",
    "consumer:\n  slots: 1.5": "2: consumer.slots: must be a whole number (found 1.5)",
    "allow:\n  bots: perhaps": "2: allow.bots: must be true or false (found 'perhaps')",
    "allow:\n  access: wirte": (
        "2: allow.access: 'wirte' is not a level of access; did you mean `write`? "
        "Known: none, read, triage, write, admin"
    ),
    "log:\n  level: warn": (
        "2: log.level: 'warn' is not possible here; did you mean `warning`? Known: debug, info, warning, error"
    ),
    "lease:\n  ttl: 2 fortnights": f"2: lease.ttl: '2 fortnights' {DURATION}",
    "lease:\n  ttl: 0": "2: lease.ttl: 0 is too short; the shortest duration is 1ms",
    "run:\n  log_limit: plenty": (
        "2: run.log_limit: 'plenty' is not a size; write a number of bytes, or one with a unit: 500 kB, 10 MiB"
    ),
    "label_prefix: 12": "1: label_prefix: must be a text; put it in quotation marks (found 12)",
    "triggers: fix": "1: triggers: must be a list: indented lines like `- value` (found 'fix')",
    "data_dir: ~nobody-of-that-name/x": (
        "1: data_dir: starts with ~, but there is no such home folder; write the path in full "
        "(found '~nobody-of-that-name/x')"
    ),
    # Labels.
    "label_prefix: a b": (
        "1: label_prefix: 'a b' holds ' ', which is not legal in labels everywhere; "
        "use letters, digits, '-', '_', '.', ':' and '/'"
    ),
    f"label_prefix: {'x' * 39}": (
        f"1: label_prefix: {'x' * 39!r} has 39 characters, but at most 38 fit: with the status behind it "
        "a label may have 50 on GitHub"
    ),
    "label_prefix: 'team:'": (
        "1: label_prefix: must start with a letter or digit, not end with ':' or '/', and hold no '::' (found 'team:')"
    ),
    "former_label_prefixes: [Agent-Smith]": (
        "1: former_label_prefixes: lists Agent-Smith, which is the label_prefix of today; remove it here"
    ),
    # Redis.
    "redis:\n  url: http://user:hunter2@example": (
        "2: redis.url: is not the address of a Redis; write redis://host:6379/0, rediss://…, unix:///path/to/socket "
        "or redis+sentinel://host:26379,host:26379/service"
    ),
    "redis:\n  namespace: a:b": (
        "2: redis.namespace: 'a:b' is not a namespace; use up to 63 letters, digits, '.', '-' and '_'"
    ),
    # Times that do not fit together.
    "lease:\n  renew_every: 50s": (
        "2: lease.renew_every: must be below 50s, half of lease.ttl minus lease.margin, so that one renewal may fail; "
        "lower lease.renew_every or raise lease.ttl"
    ),
    "lease:\n  ttl: 20s": (
        "1: lease.margin: must be shorter than lease.ttl (20s), else the lease is never trusted; "
        "lower lease.margin or raise lease.ttl"
    ),
    "consumer:\n  kill_grace: 11s": (
        " lease.margin: must be at least 22s, twice consumer.kill_grace, so that children are gone before the lease "
        "is; raise lease.margin or lower consumer.kill_grace"
    ),
    "lease:\n  leader: 20s": (
        "2: lease.leader: must be longer than lease.margin (20s), else it is never trusted; "
        "raise lease.leader or lower lease.margin"
    ),
    # Trackers.
    "trackers:\n  Web: {platform: local}": (
        "2: trackers.Web: is not a tracker name; use up to 63 of a-z, 0-9, - and _, starting with a letter or digit"
    ),
    "trackers:\n  web:": "2: trackers.web.platform: is missing; name one of github, local",
    "trackers:\n  web:\n    platform: githb": (
        "3: trackers.web.platform: is not a platform; did you mean `github`? Known: github, local"
    ),
    "trackers:\n  web:\n    platform: github\n    repository: a/b": (
        "2: trackers.web.token: is missing; add `token: …`"
    ),
    "trackers:\n  web:\n    platform: local\n    pol_interval: 1": (
        "4: trackers.web.pol_interval: unknown key; did you mean `poll_interval`? "
        f"Known: {', '.join(PLATFORMS['local'].model_fields)}"
    ),
    "trackers:\n  web:\n    platform: local\n    poll_interval: 2d": (
        "4: trackers.web.poll_interval: '2d' is too slow; polling can be slowed down to 1d, but not switched off"
    ),
    "trackers:\n  web:\n    platform: local\n    webhook_secret: ''": (
        "4: trackers.web.webhook_secret: is empty; set the secret, or leave the key out to refuse webhooks"
    ),
    "trackers:\n  a: {platform: local}\n  b: {platform: local}": (
        "3: trackers.b: watches the same project as trackers.a (local/tickets); keep one of the two"
    ),
    # Triggers.
    "triggers:\n  - {label: Agent-Smith:Done, pipeline: hello}": (
        "2: triggers[0].label: `Agent-Smith:Done` is a lifecycle label, which agentsmith sets itself; "
        "use another name, such as `agent-smith`"
    ),
    "former_label_prefixes: [old]\ntriggers:\n  - {label: old:failed, pipeline: hello}": (
        "3: triggers[0].label: `old:failed` is a lifecycle label, which agentsmith sets itself; "
        "use another name, such as `agent-smith`"
    ),
    "triggers:\n  - label: x\n    pipeline: helo": (
        "3: triggers[0].pipeline: there is no pipeline `helo`; did you mean `hello`? Known: hello, "
        "fix-bug, add-feature, run-script"
    ),
    "triggers:\n  - {label: x, pipeline: hello, tracker: web}": (
        "2: triggers[0].tracker: there is no tracker `web`; known: local"
    ),
    "triggers:\n  - {label: x, pipeline: hello}\n  - {label: X, pipeline: hello}": (
        "3: triggers[1].label: `X` already starts pipeline `hello` on tracker `local` (triggers[0]); "
        "one label starts one pipeline: put rules with filters before it"
    ),
    "triggers:\n  - {label: x, pipeline: hello, query: ' '}": (
        "2: triggers[0].query: asks for nothing; write words that the title or the text must hold (found ' ')"
    ),
    "triggers:\n  - {label: 'a,b', pipeline: hello}": (
        "2: triggers[0].label: 'a,b' holds ',' or ';', which separate labels on GitLab and Azure DevOps; "
        "use another name"
    ),
    "triggers:\n  - {label: x, pipeline: hello, tracker: []}": (
        "2: triggers[0].tracker: is empty; at least 1 is needed"
    ),
    # Pipelines and steps.
    "pipelines:\n  p:": "2: pipelines.p.steps: is missing; add `steps: …`",
    "pipelines:\n  p:\n    steps: []": "3: pipelines.p.steps: is empty; at least 1 is needed",
    "pipelines:\n  p:\n    steps:\n      - rnu: x": (
        "4: pipelines.p.steps[0]: unknown step `rnu`; did you mean `run`? Known: " + STEPS
    ),
    "pipelines:\n  p:\n    steps:\n      - kind: run": "4: pipelines.p.steps[0]: unknown step `kind`; known: " + STEPS,
    "pipelines:\n  p:\n    steps: [run]": "3: pipelines.p.steps[0]: `run` needs a command; write `- run: …`",
    "pipelines:\n  p:\n    steps: [run: [sleep, 1.5]]": f"3: pipelines.p.steps[0].command: {RUN}",
    # Agents.
    "agents:\n  mine:": "2: agents.mine.command: is missing; add `command: …`",
    "agents:\n  mine: {command: [x, '{prompt}']}": (
        "2: agents.mine.command: holds {prompt}, which is not known; there are {prompt_file} and {session}"
    ),
    "agents:\n  mine: {command: [x], resume: [x, '{session}']}": (
        "2: agents.mine: `resume` needs {session}, but `session` does not say where to read it"
    ),
    "agents:\n  mine: {command: [x], usage_pattern: x}": (
        "2: agents.mine.usage_pattern: must name what it finds: (?P<input_tokens>…); known: input_tokens, "
        "output_tokens, cost_usd (found 'x')"
    ),
    "run: {agent: nobody}": ("1: run.agent: there is no agent `nobody`; known: claude, codex, gemini, aider, opencode"),
    "run: {link: 'https://x.example'}": (
        "1: run.link: must hold `{run}`, and no other `{…}`: https://runs.example/{run} (found 'https://x.example')"
    ),
    "pipelines:\n  p:\n    steps: [5]": f"3: pipelines.p.steps[0]: {MAPPING}",
    "pipelines:\n  p:\n    steps: [{}]": (
        "3: pipelines.p.steps[0]: a step is one thing to do; write `- run: make test`"
    ),
    "pipelines:\n  p:\n    steps:\n      - run: x\n        timout: 1": (
        "4: pipelines.p.steps[0]: unknown key `timout` beside `run`; did you mean `timeout`? Known: id, name, if, "
        "timeout, retries, with, env, shell, working_directory"
    ),
    "pipelines:\n  p:\n    steps:\n      - run: x\n        timeout: soon": (
        f"5: pipelines.p.steps[0].timeout: 'soon' {DURATION}"
    ),
    "pipelines:\n  p:\n    steps: [{run: x, name: ' '}]": "3: pipelines.p.steps[0]: `name` must be one line of text",
    "pipelines:\n  p:\n    steps: [run: x]\n    env: [A=b]": (
        "4: pipelines.p.env: must list names of environment variables (letters, digits and _), without values"
    ),
    "pipelines:\n  p:\n    steps: [run: x]\n    env: [AGENTSMITH_REDIS__URL]": (
        "4: pipelines.p.env: lists AGENTSMITH_REDIS__URL, but variables that start with AGENTSMITH_ "
        "are never passed on; rename it"
    ),
    # Variables.
    "trackers:\n  web:\n    platform: github\n    repository: a/b\n    token: ${GITHUB_TOKEN}": (
        "5: trackers.web.token: the environment variable GITHUB_TOKEN is not set; set it, write it into the "
        "env_file, or give a default: ${GITHUB_TOKEN:-default}"
    ),
    "server:\n  host: ${a b}": (
        "2: server.host: holds `${` without a name behind it; write `${NAME}`, or `$${` for the text"
    ),
    # Broken files.
    "server:\n\tport: 1": "2: is not valid YAML: a tab stands where YAML wants spaces; indent with spaces",
    "a: b: c": "1: is not valid YAML: a second `: ` on the line; check the indentation, or quote the text",
    "a: 'open": "1: is not valid YAML: a quotation mark is not closed",
    "a: *secret-that-starts-with-a-star": (
        "1: is not valid YAML: `*name` points to nothing; quote the text if it is one"
    ),
    "a: @secret": "1: is not valid YAML: the text starts with a special character; quote it",
    "a: 1\n---\nb: 2": "2: is not valid YAML: more than one document (`---`); keep one",
    "- a": "1: must be a mapping: lines like `label_prefix: agent-smith`",
    "just text": "1: must be a mapping: lines like `label_prefix: agent-smith`",
    "server: !!python/object/apply:os.system [ls]": ("1: server: has a tag (`!…`) that is not supported; remove it"),
    "[" * 100_000: "1: is not valid YAML: nested too deep",
    "? [a]\n: b": "1: holds a key that is not a text",
    "a: \x07": "1: a character that no text file holds; is this a YAML file?",
}


WRONG_STEP = {
    "push: now": ": `push` takes no value; write `- push`",
    "comment": ": `comment` needs a text; write `- comment: …`",
    "{push: , shell: sh}": ".shell: unknown key; there is nothing to set here",
    "checkout: {bse: x}": ".bse: unknown key; did you mean `base`? Known: base, submodules, lfs",
    "checkout: a..b": ".base: 'a..b' is not the name of a branch",
    "agent: claud": (
        ": there is no agent `claud`; did you mean `claude`? Known: claude, codex, gemini, aider, opencode"
    ),
    "label": ": needs labels to `add` or to `remove`",
    "label: 'Agent-Smith:Done'": (
        ": `Agent-Smith:Done` is a lifecycle label, which only agentsmith itself may set or remove"
    ),
    "label: agent-smith": ": `agent-smith` starts a pipeline, and is people's alone; use another label",
    "{run: x, working_directory: ../y}": (
        ".working_directory: must be a folder inside the workspace: a relative path without `..` (found '../y')"
    ),
    "{run: x, shell: bash, with: {shell: sh}}": ": `shell` is given twice; keep one",
    "{run: x, with: y}": ": `with` must be a mapping: what `run` is told, one `key: value` per line",
    "{run: x, if: rain}": f": `if` {CONDITION.format('`rain` is not known')}",
    "{run: x, if: always and (success}": f": `if` {CONDITION.format('a parenthesis is not closed')}",
    "{run: x, if: always and success or failure}": (
        f": `if` {CONDITION.format('`and` and `or` need parentheses between them')}"
    ),
    "{run: x, if: [a]}": ": `if` must be a text; put it in quotation marks",
    "{run: x, id: a b}": ": `id` must be one word of letters, digits, '.', '-' and '_'",
    "{run: x, retries: 99}": ".retries: must be at most 10 (found 99)",
}
WRONG_ORDER = {
    "commit": "step 1 (`commit`) needs a `checkout` before it",
    "{run: x, if: b failed}, {run: y, id: b}": (
        "step 1 (`x`): its `if` asks about `b`, which is no step before it; nothing runs before it"
    ),
    "{run: x}, {verify: y, if: rnu failed}": (
        "step 2 (`verify: y`): its `if` asks about `rnu`, which is no step before it; did you mean `run`? Known: run"
    ),
    "{run: x, id: b}, {run: y, id: b}": "step 2 (`y`): the id `b` stands twice; ids must differ",
}


@pytest.mark.parametrize(("step", "expected"), WRONG_STEP.items())
def test_a_wrong_step_is_one_line(tmp_path: Path, step: str, expected: str) -> None:
    text = f"pipelines:\n  p:\n    steps: [{step}]"
    assert told(tmp_path, text) == [f"agentsmith.yaml:3: pipelines.p.steps[0]{expected}"]


@pytest.mark.parametrize(("steps", "expected"), WRONG_ORDER.items())
def test_steps_that_do_not_go_together_are_one_line(tmp_path: Path, steps: str, expected: str) -> None:
    text = f"pipelines:\n  p:\n    steps: [{steps}]"
    assert told(tmp_path, text) == [f"agentsmith.yaml:2: pipelines.p: {expected}"]


@pytest.mark.parametrize(("text", "expected"), ONE_PROBLEM.items(), ids=[text[:40] for text in ONE_PROBLEM])
def test_one_problem_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert told(tmp_path, text) == [f"agentsmith.yaml:{expected}"]


def test_several_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "server:\n  prot: 1\n  port: x\nlabl: y\nlog: {format: xml}\n"
    assert [line.split(": ")[:2] for line in told(tmp_path, text)] == [
        ["agentsmith.yaml:2", "server.prot"],
        ["agentsmith.yaml:3", "server.port"],
        ["agentsmith.yaml:4", "labl"],
        ["agentsmith.yaml:5", "log.format"],
    ]


def test_wrong_entries_do_not_make_a_list_empty(tmp_path: Path) -> None:
    assert len(told(tmp_path, "pipelines: {p: {steps: [rnu, 5]}}")) == 2


def test_the_environment_variable_is_named(tmp_path: Path) -> None:
    environ = {
        "AGENTSMITH_SERVER__PORT": "x",
        "AGENTSMITH_SERVR__PORT": "1",
        "AGENTSMITH_LOG": "debug",
        "AGENTSMITH_TRIGGERS": '[{"label": "x"}]',
        "AGENTSMITH_TRACKERS__W__TOKEN": "t",
    }
    text = "server:\n  port: 1\ntriggers:\n  - label: a\n    pipeline: b\n"
    assert sorted(told(tmp_path, text, environ)) == [
        f"environment variable AGENTSMITH_LOG: log: {MAPPING}",
        "environment variable AGENTSMITH_SERVER__PORT: server.port: must be a whole number",
        f"environment variable AGENTSMITH_SERVR__PORT: servr: unknown key; did you mean `server`? Known: {TOP}",
        "environment variable AGENTSMITH_TRACKERS__W__TOKEN: trackers.w.platform: is missing; "
        "name one of github, local",
        "environment variable AGENTSMITH_TRIGGERS: triggers[0].pipeline: is missing; add `pipeline: …`",
    ]


def test_a_flag_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^command line: server\.port: must be a whole number"):
        load_text(tmp_path, "server: {port: 1}", flags={"server.port": "x"})


def test_a_step_never_gets_a_secret_of_ours(tmp_path: Path) -> None:
    text = """trackers:
  web: {platform: github, repository: a/b, token: "${GITHUB_TOKEN}"}
pipelines:
  p:
    env: [PATH, GITHUB_TOKEN]
    steps: [run: x]
"""
    assert told(tmp_path, text, {"GITHUB_TOKEN": "t0ken", "PATH": "/bin"}) == [
        "agentsmith.yaml:5: pipelines.p.env: GITHUB_TOKEN holds a secret of agentsmith itself, which no step may see; "
        "give the steps a credential of their own, under another name"
    ]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(path: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(Path(path), platforms=PLATFORMS, environ=HOME)
        return str(caught.value)

    monkeypatch.chdir(tmp_path)
    assert message("gone.yaml") == (
        "gone.yaml: there is no such file; check --config and $AGENTSMITH_CONFIG, or leave both out for the defaults"
    )
    assert message(".") == ".: is a folder, not a file; name the YAML file inside it"
    assert message("a\0b").endswith("cannot be read: not a file name")
    assert message("/dev/zero") == "/dev/zero: is larger than 1024 KiB; is this the right file?"
    (tmp_path / "agentsmith.yaml").symlink_to("gone.yaml")
    with pytest.raises(ConfigError, match=r"^agentsmith\.yaml: there is no such file"):
        load(None, platforms=PLATFORMS, environ=HOME)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    assert message("x") == "x: may not be read by this user; check its permissions"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a: \xff", ":1: is not UTF-8 text; save the file as UTF-8"),
        ("a: b".encode("utf-16"), ": is not a text file; save it as UTF-8 text"),
        (b"\x7fELF\0\0", ": is not a text file; save it as UTF-8 text"),
    ],
)
def test_what_is_no_text(tmp_path: Path, raw: bytes, expected: str) -> None:
    assert told(tmp_path, raw) == [f"agentsmith.yaml{expected}"]


def test_a_few_lines_cannot_grow_into_gigabytes(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    found = told(tmp_path, "\n".join(lines))
    assert len(found) == 1
    assert "is too large: more than 20000 values, aliases filled in" in found[0]


def test_an_alias_that_holds_itself_is_noticed(tmp_path: Path) -> None:
    assert told(tmp_path, "a: &a [*a]")[0].endswith("is nested too deep, or an alias that holds itself")
    assert told(tmp_path, "a: &a\n  <<: *a")[0].endswith("is nested too deep, or an alias that holds itself")


def test_a_name_cannot_break_the_line_or_paint_the_terminal(tmp_path: Path) -> None:
    lines = told(tmp_path, '"x\\n\\e[31m evil": 1')
    assert len(lines) == 1
    assert lines[0].isprintable()


SECRET = "s3cr3t-of-the-user"


@pytest.mark.parametrize(
    "text",
    [
        "redis: {url: 'http://:SECRET@x'}",
        "redis: {url: SECRET}",
        "redis: {url: [SECRET]}",
        "redis: {password: SECRET}",
        "trackers: {w: {platform: github, repository: a/b, tokn: SECRET}}",
        "trackers: {w: {platform: github, repository: 1, token: [SECRET]}}",
        "trackers: {w: {platform: githb, token: SECRET}}",
        "trackers: {w: SECRET}",
        "trackers: {w: {platform: local, webhook_secret: {x: SECRET}}}",
        "trackers: {w: {platform: local, webhook_secret: [SECRET, 5]}}",
        "trackers: {w: {platform: github, repository: [], base_url: ['https://u:SECRET@h'], token: x}}",
        "trackers:\n  w:\n    token: @SECRET",
        "trackers:\n  w:\n    token: 'SECRET",
        "trackers:\n  w:\n    token: *SECRET",
        "trackers:\n  w:\n    token: !SECRET x",
        'trackers:\n  w:\n    token: "\\SECRET"',
        "server: {port: '${FROM_ENV}'}",
    ],
)
def test_no_message_repeats_a_secret(tmp_path: Path, text: str) -> None:
    lines = told(tmp_path, text.replace("SECRET", SECRET), {"FROM_ENV": SECRET})
    assert SECRET not in "\n".join(lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.text(alphabet="abcXYZ019-_", min_size=8, max_size=20), st.sampled_from(["repository", "server", "nothing"]))
def test_a_token_stays_secret_whatever_else_is_wrong(tmp_path: Path, token: str, wrong: str) -> None:
    text = f'trackers: {{w: {{platform: github, {wrong}: [], token: "{token}"}}}}\nserver: {{port: "{token}"}}\n'
    lines = told(tmp_path, text)
    assert token not in "\n".join(lines).replace("agentsmith.yaml", "")

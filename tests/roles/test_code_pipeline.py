"""From a label to a pull request, with real git and a scripted agent, and what is saved when it does not get there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentsmith.config import Agent, Duration
from agentsmith.domain.errors import TrackerUnavailable
from agentsmith.domain.forge import EmptyRepository, NoPullRequests, PullRequest, WantedPullRequest
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.stop import StopKind, StopReason
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Move, MoveOutcome
from agentsmith.pipelines import apart
from agentsmith.pipelines.record import records
from agentsmith.store import Store
from tests.support.code_world import CodeWorld, RecordingForge, code_config, open_code_world, scripted_agent
from tests.support.git_bench import Person, make_origin
from tests.support.private import open_to_others
from tests.support.wait import wait_until

Open = Callable[..., AbstractAsyncContextManager[CodeWorld]]

FIX = """
import json, os, pathlib, sys
prompt = sys.stdin.read()
pathlib.Path("parser.py").write_text("fixed = True\\n")
pathlib.Path(os.environ["HOME"], "prompt").write_text(prompt)
print(json.dumps({"answer": "I repaired the parser."}))
"""
NOTHING = "print('I see no problem.')"
CODING: list[object] = ["checkout", "agent", "verify", "commit", "push", "pull_request"]


@pytest.fixture
def opened(tmp_path: Path, store: Store, redis_url: str) -> Open:
    def make(
        steps: list[object],
        *,
        agent: str = FIX,
        files: Mapping[str, str | bytes] | None = None,
        forge: RecordingForge | None = None,
        **run: Any,
    ) -> AbstractAsyncContextManager[CodeWorld]:
        config = code_config(tmp_path / "data", steps, agent=scripted_agent(tmp_path, agent), **run)
        return open_code_world(tmp_path, store, redis_url, config=config, files=files, forge=forge)

    return make


async def status(code: CodeWorld, key: str) -> Status:
    [found] = await code.world.statuses(key)
    return found


async def comment(code: CodeWorld, key: str) -> str:
    return (await code.world.comments(key))[0]


async def test_a_label_ends_in_a_pull_request(opened: Open) -> None:
    async with opened(CODING) as code:
        key = await code.carry_through(title="The parser crashes", body="It does.")
        assert await status(code, key) is Status.DONE
        assert code.content(key, "parser.py") == "fixed = True"
        assert code.subjects(key) == ["The parser crashes"]
        [wanted] = code.forge.proposed
        assert (wanted.branch, wanted.base, wanted.draft) == (f"agent-smith/{key}", "main", False)
        assert wanted.title == "The parser crashes"
        assert wanted.body.startswith(f"Closes #{key}\n\nI repaired the parser.")
        assert wanted.ticket is not None
        said = await comment(code, key)
        assert "https://code.example/pulls/1" in said
        assert "✅ `agent`" in said
        [record] = records(code.world.config.data_dir)
        assert (record.pull_request, record.branch) == ("https://code.example/pulls/1", f"agent-smith/{key}")
        assert f"Agentsmith-Run: {record.run}" in code.message(key)
        assert open_to_others(code.world.config.data_dir) == []


async def test_what_a_run_leaves_in_its_home_is_not_in_the_commit(opened: Open) -> None:
    async with opened(CODING) as code:
        key = await code.carry_through()
        assert code.files(key) == ["README.md", "parser.py"]


async def test_the_same_ticket_again_updates_its_pull_request(opened: Open) -> None:
    agent = """
import os, pathlib
file = pathlib.Path("notes.txt")
file.write_text((file.read_text() if file.exists() else "") + "x")
"""
    async with opened(CODING, agent=agent) as code:
        key = await code.carry_through()
        await code.again(key)
        assert await status(code, key) is Status.DONE
        assert code.content(key, "notes.txt") == "xx"
        assert len(code.subjects(key)) == 2
        assert list(code.forge.open) == [f"agent-smith/{key}"]
        assert [made.number for made in code.forge.open.values()] == ["1"]


@pytest.mark.parametrize(("after", "ends"), [("exit 1", Status.FAILED), ("exit 79", Status.WAITING)])
async def test_the_comment_links_to_the_pull_request_however_the_run_ended(
    opened: Open, after: str, ends: Status
) -> None:
    steps = [*CODING[:-1], {"pull_request": None, "with": {"draft": True}}, {"run": after}]
    async with opened(steps) as code:
        key = await code.carry_through()
        assert await status(code, key) is ends
        assert "The draft of the pull request: https://code.example/pulls/1" in await comment(code, key)


@pytest.mark.parametrize("where", ["configured", "repository"])
async def test_a_red_gate_makes_a_draft(opened: Open, where: str) -> None:
    files = {".agentsmith/verify": "#!/bin/sh\necho 1 test failed; exit 1\n"} if where == "repository" else None
    gate: object = "verify" if where == "repository" else {"verify": "echo 1 test failed; exit 1"}
    async with opened(["checkout", "agent", gate, "commit", "push", "pull_request"], files=files) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.DONE
        [wanted] = code.forge.proposed
        assert wanted.draft
        assert "a check is red" in wanted.body
        said = await comment(code, key)
        assert "is a draft" in said
        assert "🟥" in said


async def test_a_run_cannot_weaken_the_gate_it_is_held_to(opened: Open) -> None:
    agent = "import pathlib; pathlib.Path('.agentsmith/verify').write_text('#!/bin/sh\\nexit 0\\n')"
    steps = ["checkout", "agent", {"verify": None, "with": {"red": "fail"}}, "commit", "push", "pull_request"]
    async with opened(steps, agent=agent, files={".agentsmith/verify": "#!/bin/sh\nexit 1\n"}) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        assert code.forge.proposed == []


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            "{% for a in range(1000) %}" * 4 + "{% endfor %}" * 4,
            r"took longer than 1 s; make `\.agentsmith/prompt\.md`",
        ),
        ("{{ '%0400000000d' % 1 }}", "larger than|more than .* MiB of memory|too much memory"),
        ("{{ ticket.bdy }}", "no attribute 'bdy'"),
    ],
)
async def test_a_template_of_the_repository_gets_only_so_much_time_and_memory(
    opened: Open, monkeypatch: pytest.MonkeyPatch, template: str, why: str
) -> None:
    monkeypatch.setitem(apart.SECONDS, "prompt", 1.0 if "for" in template else 60.0)
    async with opened(["checkout", "agent"], files={".agentsmith/prompt.md": template}) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        said = await comment(code, key)
    assert re.search(why, said), said


async def test_the_prompt_comes_from_the_default_branch_alone(opened: Open) -> None:
    agent = FIX + "\npathlib.Path('.agentsmith/prompt.md').write_text('EVIL {{ ticket.title }}')\n"
    files = {".agentsmith/prompt.md": "Our own rules for {{ ticket.key }} on {{ branch }}: {{ ticket.title }}"}
    async with opened(CODING, agent=agent, files=files) as code:
        key = await code.carry_through(title="It crashes")
        await code.again(key)
        home = code.world.config.data_dir / "workspaces" / f"local.{key}" / "home"
        prompt = (home / "prompt").read_text()
        assert f"Our own rules for {key} on agent-smith/{key}: <untrusted-" in prompt
        assert "EVIL" not in prompt
        assert "EVIL" in code.content(key, ".agentsmith/prompt.md"), "the second run saw a branch that wants more"


@pytest.mark.parametrize("changes", ["needed", "optional"])
async def test_done_only_with_a_diff_unless_none_is_needed(opened: Open, tmp_path: Path, changes: str) -> None:
    async with opened(CODING, agent=NOTHING) as code:
        pipelines = code.world.parts.rules.pipelines
        pipelines["work"] = pipelines["work"].model_copy(update={"changes": changes})
        key = await code.carry_through()
        assert await status(code, key) is (Status.FAILED if changes == "needed" else Status.DONE)
        assert code.forge.proposed == []
        assert not code.on_server(key)
        if changes == "needed":
            assert "Nothing was changed" in await comment(code, key)


async def test_conditions_see_whether_something_changed(opened: Open) -> None:
    steps = ["checkout", "agent", {"commit": None, "if": "changes"}, {"push": None, "if": "changes"}]
    async with opened(steps, agent=NOTHING) as code:
        key = await code.carry_through()
        [record] = records(code.world.config.data_dir)
        assert [step.state for step in record.steps] == ["done", "done", "skipped", "skipped"]
        assert await status(code, key) is Status.DONE


def pushed_before(code: CodeWorld, key: str, monkeypatch: pytest.MonkeyPatch, to: Status | None) -> list[str]:
    """What the server has of the branch at the moment when the label is about to say how it ended."""
    tracker, seen = code.world.trackers["local"], []
    real = tracker.move

    async def move(ticket: Ticket, move: Move) -> MoveOutcome:
        if move.to is to and move.expect is Status.IN_PROGRESS:
            seen.append(code.on_server(key))
        return await real(ticket, move)

    monkeypatch.setattr(tracker, "move", move)
    return seen


async def test_a_failed_step_leaves_its_work_on_the_branch_before_the_label_says_so(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ["checkout", {"run": "echo half > half.txt; exit 3", "name": "build"}]
    async with opened(steps) as code:
        key = await code.world.open_ticket()
        seen = pushed_before(code, key, monkeypatch, Status.FAILED)
        await code.run(key)
        assert await status(code, key) is Status.FAILED
        assert seen == [code.on_server(key)]
        assert seen[0]
        assert code.content(key, "half.txt") == "half"
        [subject] = code.subjects(key)
        assert subject.startswith("[wip]")
        [record] = records(code.world.config.data_dir)
        message = code.message(key)
        assert record.run in message
        assert "build" in message
        assert "work" in message
        assert f"on the branch `agent-smith/{key}`" in await comment(code, key)


async def test_the_next_run_goes_on_from_there(opened: Open) -> None:
    script = "[ -e half.txt ] && echo whole > whole.txt || { echo half > half.txt; exit 3; }"
    async with opened(["checkout", {"run": script}, "commit", "push", "pull_request"]) as code:
        key = await code.carry_through()
        await code.again(key)
        assert await status(code, key) is Status.DONE
        assert code.files(key) == ["README.md", "half.txt", "whole.txt"]
        record = next(records(code.world.config.data_dir))
        assert "goes on from the branch" in record.steps[0].note


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo x > work.txt; exit 75", Status.WAITING), ("echo x > work.txt; exit 79", Status.WAITING)],
)
async def test_a_parked_run_saves_its_work_too(opened: Open, script: str, expected: Status) -> None:
    async with opened(["checkout", {"run": script}]) as code:
        key = await code.carry_through()
        assert await status(code, key) is expected
        assert code.content(key, "work.txt") == "x"


async def test_a_timed_out_step_saves_its_work(opened: Open) -> None:
    async with opened(["checkout", {"run": "echo x > work.txt; sleep 60", "timeout": "500ms"}]) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        assert code.content(key, "work.txt") == "x"


@pytest.fixture
async def serving() -> Any:
    """Lets a world's consumer take requests in the background."""
    tasks: list[tuple[CodeWorld, asyncio.Task[None]]] = []

    async def serve(code: CodeWorld) -> None:
        tasks.append((code, asyncio.create_task(code.world.consumer.serve())))

    yield serve
    for code, task in tasks:
        await code.world.consumer.drain(timeout=0)
        await task


Serve = Callable[[CodeWorld], Awaitable[None]]


async def _until(code: CodeWorld, key: str, wanted: frozenset[Status]) -> None:
    async def there() -> bool:
        return await code.world.statuses(key) == wanted

    await wait_until(there, what=f"the label {sorted(wanted)}")


@pytest.mark.parametrize("reason", [StopReason.cancelled_by("mona"), StopReason.withdrawn(open_=True)], ids=str)
async def test_a_stopped_run_saves_its_work(opened: Open, tmp_path: Path, serving: Serve, reason: StopReason) -> None:
    async with opened(["checkout", {"run": f"echo x > work.txt; touch {tmp_path}/started; sleep 60"}]) as code:
        key = await code.world.open_ticket()
        await code.world.claim(key)
        await serving(code)
        await wait_until((tmp_path / "started").exists, what="the step to run")
        consumer = code.world.consumer
        consumer.stop_runs({code.world.ticket_id(key): reason}, asked=consumer.running)
        await _until(code, key, frozenset({Status.FAILED} if reason.kind is StopKind.CANCELLED else ()))
        assert code.content(key, "work.txt") == "x"


async def test_a_drained_run_saves_its_work(opened: Open, tmp_path: Path) -> None:
    async with opened(["checkout", {"run": f"echo x > work.txt; touch {tmp_path}/started; sleep 60"}]) as code:
        key = await code.world.open_ticket()
        await code.world.claim(key)
        task = asyncio.create_task(code.world.consumer.serve())
        await wait_until((tmp_path / "started").exists, what="the step to run")
        await code.world.consumer.drain(timeout=0)
        await task
        assert await status(code, key) is Status.ENQUEUED
        assert code.content(key, "work.txt") == "x"


@pytest.mark.parametrize("at", ["step", "push"])
async def test_P6_a_fenced_off_run_pushes_nothing(opened: Open, tmp_path: Path, serving: Serve, at: str) -> None:
    waiting = f"echo x > work.txt; touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    tail = "exit 3" if at == "step" else "true"
    async with opened(["checkout", {"run": f"{waiting}; {tail}"}, "commit", "push", "pull_request"]) as code:
        key = await code.world.open_ticket()
        await code.world.claim(key)
        await serving(code)
        await wait_until((tmp_path / "started").exists, what="the step to run")
        lease = await code.world.store.runs.lease(code.world.ticket_id(key))
        assert lease is not None
        # Somebody took the ticket over: a newer fence stands. The run has not noticed when its step ends.
        await code.world.store.redis.set(code.world.store.keys.fence(lease.ticket), lease.fence + 1, px=60_000)
        (tmp_path / "go").touch()
        await wait_until(lambda: not code.world.consumer.running, what="the run to be over")
        assert not code.on_server(key)
        assert code.forge.proposed == []
        assert await status(code, key) is Status.IN_PROGRESS


async def test_work_of_a_long_step_is_pushed_now_and_then(opened: Open, tmp_path: Path, serving: Serve) -> None:
    script = f"echo early > early.txt; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo late > late.txt"
    async with opened(["checkout", {"run": script}, "commit", "push"], checkpoint_every=Duration(0.2)) as code:
        key = await code.world.open_ticket()
        await code.world.claim(key)
        await serving(code)

        async def pushed() -> bool:
            # Not in the event loop, which has to go on meanwhile.
            return bool(await asyncio.to_thread(code.on_server, key))

        await wait_until(pushed, what="a checkpoint", within=30)
        assert await status(code, key) is Status.IN_PROGRESS
        assert code.content(key, "early.txt") == "early"
        (tmp_path / "go").touch()
        await _until(code, key, frozenset({Status.DONE}))
        assert code.content(key, "late.txt") == "late"


async def test_a_branch_that_somebody_moved_is_reported_and_not_overwritten(opened: Open, tmp_path: Path) -> None:
    steps = ["checkout", {"run": f"echo mine > work.txt; sh {tmp_path}/meddle.sh"}, "commit", "push"]
    async with opened(steps) as code:
        key = await code.world.open_ticket()
        person = Person.of(code.origin, tmp_path / "mona")
        (tmp_path / "meddle.sh").write_text(
            f"cd {person.at} && git checkout -q -b agent-smith/{key} && echo theirs > t.txt && git add -A && "
            "git -c user.name=m -c user.email=m@example.org commit -qm theirs && git push -q origin HEAD\n"
        )
        await code.run(key)
        assert await status(code, key) is Status.FAILED
        assert code.subjects(key) == ["theirs"]
        assert "nothing was overwritten" in await comment(code, key)


async def test_a_secret_in_the_work_stops_the_push_and_reaches_nobody(opened: Open) -> None:
    key_material = "AKIA" + "QWERTYUIOPASDFGH"
    agent = f"import pathlib; pathlib.Path('settings.py').write_text('AWS_KEY = \"{key_material}\"\\n')"
    async with opened(CODING, agent=agent) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        assert not code.on_server(key)
        said = await comment(code, key)
        assert "settings.py:1" in said
        assert key_material not in said


class _Fails(RecordingForge):
    """A code host that does not do its part."""

    error: Exception

    async def default_branch(self, *, deadline: float | None = None) -> str:  # noqa: ARG002
        if isinstance(self.error, EmptyRepository | TrackerUnavailable):
            raise self.error
        return self.branch

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (EmptyRepository("the repository has no commit yet; push one first"), Status.FAILED, "no commit yet"),
        (TrackerUnavailable("503"), Status.WAITING, "could not be checked out: 503"),
        (NoPullRequests("a plain git server knows no pull requests"), Status.FAILED, "knows no pull requests"),
    ],
)
async def test_a_code_host_that_fails_is_told_of_on_the_ticket(
    opened: Open, tmp_path: Path, error: Exception, expected: Status, said: str
) -> None:
    forge = _Fails(str(make_origin(tmp_path / "origin.git")))
    forge.error = error
    async with opened(CODING, forge=forge) as code:
        key = await code.carry_through()
        assert await status(code, key) is expected
        assert said in await comment(code, key)


async def test_a_repository_that_is_gone_is_a_clear_failure(opened: Open, tmp_path: Path) -> None:
    async with opened(CODING, forge=RecordingForge(str(tmp_path / "gone.git"))) as code:
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        said = await comment(code, key)
        assert "could not be checked out" in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    "title",
    ["--help", "$(touch pwned)", "a\nb", "../../x", "💥", "\u202eevil", "'\"`", "x" * 300, "refs/heads/main", "@{-1}"],
)
async def test_no_title_can_do_harm_on_the_way_to_a_pull_request(
    opened: Open, tmp_path: Path, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(CODING) as code:
        key = await code.world.open_ticket()
        tracker = code.world.trackers["local"]
        real = tracker.get

        async def odd(key: str) -> Ticket:
            return replace(await real(key), title=title, body=title * 5)

        monkeypatch.setattr(tracker, "get", odd)
        await code.run(key)
        assert await status(code, key) is Status.DONE
        assert code.files(key) == ["README.md", "parser.py"]
        assert len(code.forge.proposed[0].title.splitlines()) == 1
    assert not _harm(tmp_path)


def _harm(folder: Path) -> list[Path]:
    return list(folder.rglob("pwned"))


async def test_an_agent_that_is_not_installed_is_a_clear_failure(opened: Open) -> None:
    async with opened(CODING) as code:
        agents = dict(code.world.consumer.context.agents)
        agents["scripted"] = Agent.model_validate({"command": ["no-such-agent-anywhere"]})
        code.world.consumer.context = replace(code.world.consumer.context, agents=agents)
        key = await code.carry_through()
        assert await status(code, key) is Status.FAILED
        assert "command not found: no-such-agent-anywhere" in await comment(code, key)

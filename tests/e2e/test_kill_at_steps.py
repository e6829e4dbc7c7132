"""Kill -9 of the consumer before and after every step from checkout to pull request: nothing that was pushed is lost.

Each ticket has a consumer of its own, which is killed at one boundary; then one healthy daemon brings all of them to
their ends. In the first test it is on another machine, so what the server has is all that is left; in the second on
the same, where also what was not pushed yet must be found again.

Right after a step and right before the next one the world is the same, so by default there is one kill between every
two steps; AGENTSMITH_CRASH_FULL=1 tries both.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from agentsmith.config import load
from agentsmith.daemon.build import open_trackers
from agentsmith.daemon.process import assemble
from agentsmith.domain.outcomes import Claimed
from agentsmith.domain.signal import Signal
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import serve
from agentsmith.simulators.github.stage import GitHubStage
from agentsmith.store import Store
from agentsmith.tickets.look import Looks
from agentsmith.trackers import forges, registry
from tests.e2e.daemon_that_dies import AFTER, BEFORE
from tests.e2e.daemons import Daemons
from tests.e2e.faulty_daemon import Plan
from tests.e2e.place import WITHIN, sped_up
from tests.support.wait import slowly, wait_until

STEPS: Final = ("checkout", "agent", "verify", "commit", "push", "pull_request")
ALL: Final = [(step, when) for step in STEPS for when in (BEFORE, AFTER)]
GAPS: Final = [("checkout", BEFORE), *((step, AFTER) for step in STEPS)]
FULL: Final = bool(os.environ.get("AGENTSMITH_CRASH_FULL"))
BOUNDARIES: Final = ALL if FULL else GAPS
PUSHED: Final = ALL[ALL.index(("push", AFTER)) :]
UNPUSHED: Final = ALL[ALL.index(("agent", AFTER)) : ALL.index(("push", AFTER))]
FOREIGN: Final = ("keep", "agent-smith:bug")
FILE: Final = "work.txt"
_AGENT: Final = f"""\
cat > /dev/null
echo "attempt $AGENTSMITH_ATTEMPT" >> {FILE}
"""


@dataclass(slots=True)
class Bench:
    """A project on GitHub with its code, what daemons need to work on it, and a hand that claims tickets for them."""

    folder: Path
    redis: dict[str, str]
    stage: GitHubStage
    daemons: Daemons
    tracker: Tracker
    looks: Looks
    heads: dict[str, str] = field(default_factory=dict)
    """What the server had of each ticket's branch when its consumer was dead."""

    async def victim(self, step: str, when: int) -> str:
        """A ticket whose consumer was killed at that boundary; answers its key."""
        key = self.stage.open_ticket(f"killed {'after' if when else 'before'} {step}", FOREIGN)
        self.stage.add_label(key, "agent-smith")
        look = Signal("web", key, self.tracker.ticket_id(key), cause="test")
        assert isinstance(await self.looks.on_signal(look), Claimed)
        plan = Plan(str(self.folder), step, when)
        daemon = await self.daemons.start(self.config("victim"), "consumer", plan=plan)
        assert await daemon.ended(within=WITHIN) == -signal.SIGKILL
        # In a thread: git is not waited for while the loop serves it.
        self.heads[key] = (await asyncio.to_thread(self.stage.code.heads)).get(self.branch(key), "")
        return key

    async def recover(self, *keys: str, machine: str) -> None:
        """One healthy daemon, until each ticket is done."""
        await self.daemons.start(self.config(machine), plan=Plan(str(self.folder)))
        wanted = {*FOREIGN, "agent-smith", "agent-smith:done"}

        def done() -> bool:
            return all(set(self.stage.labels(key)) == wanted for key in keys)

        try:
            await wait_until(slowly(done), what="", within=2 * WITHIN)
        except AssertionError:
            raise AssertionError({key: self.stage.labels(key) for key in keys}) from None

    def branch(self, key: str) -> str:
        return f"agent-smith/{key}"

    def attempts(self, key: str) -> list[int]:
        """Whose work is on the branch, in order."""
        text = self.stage.code.file(self.branch(key), FILE)
        assert text is not None
        return [int(line.removeprefix("attempt ")) for line in text.splitlines()]

    def check(self, key: str) -> None:
        """One pull request, one comment, and all that ever was on the server."""
        found = [proposal for proposal in self.stage.proposals() if proposal.head == self.branch(key)]
        assert [(proposal.open, proposal.draft) for proposal in found] == [(True, False)]
        assert len(self.stage.comments(key)) == 1
        if self.heads[key]:
            assert self.heads[key] in self.stage.code.history(self.branch(key))

    def config(self, machine: str) -> Path:
        """The configuration of a daemon on that machine."""
        return write_config(self.folder, machine, self.stage, self.redis)


def write_config(folder: Path, machine: str, stage: GitHubStage, redis: dict[str, str]) -> Path:
    """A configuration whose folder for data is the machine's."""
    file, script = folder / f"{machine}.yaml", folder / "agent.sh"
    script.write_text(_AGENT)
    steps = ["checkout", {"agent": "scripted"}, {"verify": f"test -s {FILE}"}, "commit", "push", "pull_request"]
    fast = sped_up()
    document: dict[str, Any] = {
        **fast,
        # On a machine that stands still for longer than a lease lives, a run is lost and begun again; that is right.
        "consumer": {**fast["consumer"], "max_attempts": 20},
        "data_dir": str(folder / machine),
        "redis": redis,
        "server": {"port": 0},
        "log": {"format": "json"},
        "trackers": {"web": {**stage.tracker(), "poll_interval": "200ms"}},
        "triggers": [{"label": "agent-smith", "pipeline": "work"}],
        "agents": {"scripted": {"command": ["sh", str(script)]}},
        "pipelines": {"work": {"steps": steps}},
    }
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture
async def bench(tmp_path: Path, store: Store, redis_url: str, namespace: str) -> AsyncIterator[Bench]:
    stage, redis = GitHubStage(), {"url": redis_url, "namespace": namespace}
    async with serve(stage.simulator), Daemons(tmp_path, "tests.e2e.daemon_that_dies") as daemons:
        file = write_config(tmp_path, "victim", stage, redis)
        models, hosts = registry.settings_models(), forges.settings_models()
        config = load(file, platforms=models, hosts=hosts, environ={})
        async with open_trackers(config, store) as trackers:
            looks = assemble(config, store, trackers).looks
            yield Bench(tmp_path, redis, stage, daemons, trackers["web"], looks)
    stage.simulator.assert_understood()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_another_machine_goes_on_from_what_was_pushed(bench: Bench) -> None:
    keys = {boundary: await bench.victim(*boundary) for boundary in BOUNDARIES}
    pushed = {boundary for boundary, key in keys.items() if bench.heads[key]}
    assert pushed == set(BOUNDARIES) & set(PUSHED)
    await bench.recover(*keys.values(), machine="another")
    for boundary, key in keys.items():
        bench.check(key)
        first, *_ = bench.attempts(key)
        assert first == (1 if boundary in pushed else 2), boundary


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_same_machine_goes_on_from_what_was_not_pushed_yet(bench: Bench) -> None:
    keys = [await bench.victim(*boundary) for boundary in (UNPUSHED if FULL else [("agent", AFTER), ("commit", AFTER)])]
    assert not any(bench.heads[key] for key in keys)
    await bench.recover(*keys, machine="victim")
    for key in keys:
        bench.check(key)
        assert bench.attempts(key)[0] == 1, key

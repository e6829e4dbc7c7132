"""Files, whatever git lets them be called, go the whole way: conflicts, the prompt, the secrets scan, artifacts."""

from __future__ import annotations

import os
from pathlib import Path

from agentsmith.domain.lifecycle import Status
from agentsmith.pipelines.record import records
from agentsmith.store import Store
from tests.support.code_world import code_config, open_code_world, scripted_agent
from tests.support.git_bench import Person

ODD = (
    "\u2028",
    "\u0085",
    "\u202e",
    "\udcff",
    "\udc85",
    "\n",
    "\t",
    "\x1b",
    '"',
    "\\",
    "'",
    "`",
    "${x}",
    "::question x",
)
SECRET = "AKIA" + "IOSFODNN7EXAMPLA"
WORK = f"""
import os
for number, odd in enumerate({ODD!r}):
    name = os.fsencode(f"a{{odd}}b")
    with open(name, "wb") as file:
        file.write(b"ours %d\\n" % number)
"""


async def test_P2_files_of_any_name_in_conflict_reach_the_agent(tmp_path: Path, store: Store, redis_url: str) -> None:
    config = code_config(
        tmp_path / "data", ["checkout", "agent", "commit", "push"], agent=scripted_agent(tmp_path, WORK)
    )
    async with open_code_world(tmp_path, store, redis_url, config=config) as code:
        key = await code.carry_through()
        assert await code.world.statuses(key) == {Status.DONE}
        person = Person.of(code.origin, tmp_path / "person")
        person.commit("theirs", {f"a{odd}b": "theirs\n" for odd in ODD})
        person.push()
        await code.again(key)
        assert await code.world.statuses(key) == {Status.DONE}
        run = next(records(config.data_dir))
        prompt = (config.data_dir / "runs" / run.run / "prompt.md").read_text()
    assert "conflict" in prompt
    assert "\n::" not in prompt


async def test_P8_a_secret_in_a_file_of_any_name_is_told_on_the_ticket(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    work = WORK.replace('b"ours %d\\n" % number', f"b\"key = '{SECRET}'\\n\"")
    work = work.replace(repr(ODD), repr(ODD[:5]))  # so few that all of them are told
    assert SECRET in work
    config = code_config(
        tmp_path / "data", ["checkout", "agent", "commit", "push"], agent=scripted_agent(tmp_path, work)
    )
    async with open_code_world(tmp_path, store, redis_url, config=config) as code:
        key = await code.carry_through()
        assert await code.world.statuses(key) == {Status.FAILED}
        [comment] = await code.world.comments(key)
        run = next(records(config.data_dir))
    assert "the changes seem to contain secrets" in comment
    assert SECRET not in comment
    assert os.fsencode(comment)
    assert run.outcome

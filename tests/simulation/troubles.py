"""Troubles that come by themselves, planned over the rough part of a seed, and mended in the end."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.faults import PERSONS
from tests.simulation.processes import Link, Process
from tests.simulation.server import Snapshot
from tests.simulation.weather import FORGETFUL, Kind
from tests.simulation.world import Agent, SimulatedWorld

_PLANNED: Final = tuple(kind for kind in Kind if not kind.name.startswith("WEBHOOK"))
_SPELLS: Final = (0.5, 3.0, 11.0, 23.0, 35.0)
"""How long things last, in seconds: shorter and longer than a lock, a trust window and a lease."""
_SILENCES: Final = (11.0, 30.0, 40.0)
"""How long those are silent who were at work: longer than Redis settles, and longer than two looks take."""
_AWAKE: Final = 0.05
"""How soon after its machine woke a guard has ended what it is not to trust any more."""
_LOST_ENDS_SHARE: Final = 0.05
_UNTIL_HEARD_OF: Final = 40.0
"""Seconds until everybody has noticed a failover: who waits for an answer that never comes waits long. If the next one
came before that, whoever settled a run could be taken for dead, and rightly."""
"""Seeds in which nothing goes wrong but that Redis forgets the ends of runs."""
_SELDOM_ALONE: Final = 0.4
"""How often something befalls a machine in the moment in which Redis forgets, or a person acts."""


class Troubles:
    """Plans and brings about what `Weather` allows."""

    def __init__(self, world: SimulatedWorld, seed: int) -> None:
        self._world = world
        self._snapshot: Snapshot | None = None
        # Drawn apart: what happens in all other seeds stays what it was.
        self._of_ends = random.Random(f"ends {seed}")
        self._lose_ends = self._of_ends.random() < _LOST_ENDS_SHARE
        self._quiet_until = 0.0
        if self._lose_ends:
            world.weather.only(Kind.FAILOVER, Kind.TRACKER_DOWN)
            world.promises.ends_are_kept = True

    def plan(self, until: float) -> None:
        """Let trouble of the seed's kinds come up until then, in seconds from now."""
        world, chance = self._world, self._world.chance
        if self._lose_ends:
            world.network.before = self._before
            return
        if world.weather.silent:
            for _ in range(chance.choice((1, 2, 3))):
                world.later(world.between(1, until / 2), self._fall_silent)
            return
        kinds = [kind for kind in world.weather.kinds if kind in _PLANNED]
        if not kinds:
            return
        for _ in range(chance.choice((0, 1, 2, 4, 7))):
            kind, moment = chance.choice(kinds), world.between(0.5, until)
            if kind is Kind.FAILOVER:
                world.later(max(0.0, moment - world.between(0.005, 2)), self._replicate)
            world.later(moment, self._begin, kind)

    def _before(self, point: str) -> None:
        """A run is about to be settled: sometimes a replica takes over that did not hear of it, or of its label."""
        world, chance = self._world, self._of_ends
        if point != "runs.settle" or not world.weather.rough or not world.network.redis_is_up or chance.random() < 0.3:
            return
        if world.loop.time() < self._quiet_until:
            return
        self._quiet_until = world.loop.time() + _UNTIL_HEARD_OF
        self._replicate()
        if chance.random() < 0.8:
            self._begin(Kind.TRACKER_DOWN)
        world.later(0.01 + 0.5 * chance.random() ** 2, self._begin, Kind.FAILOVER)

    def _fall_silent(self) -> None:
        """Let somebody at work fall silent, as soon as there is somebody; sometimes Redis forgets it just then."""
        world, chance = self._world, self._world.chance
        if not world.weather.rough:
            return
        working = self._at_work()
        if not working:
            world.later(1.0, self._fall_silent)
            return
        forgetful = [kind for kind in world.weather.kinds if kind in FORGETFUL]
        kind = chance.choice((Kind.PAUSE, Kind.PAUSE, Kind.CUT_REDIS))
        world.weather.counts[kind] += 1
        self._befall(chance.choice(working), kind, chance.choice(_SILENCES) * (0.7 + 0.6 * chance.random()))
        if forgetful and chance.random() < 0.6:
            self._replicate()
            world.later(world.between(0, 1), self._begin, chance.choice(forgetful))

    def _at_work(self) -> list[Agent]:
        """Whose children work."""
        hosts = {guard.process.host for guard in self._world.guards if guard.child is not None}
        return [agent for agent in self._world.agents.values() if agent.process.well and agent.process.host in hosts]

    def _begin(self, kind: Kind) -> None:
        world, chance = self._world, self._world.chance
        if not world.weather.happens(kind, 1.0):
            return
        world.trace.say(f"*** {kind}")
        spell = chance.choice(_SPELLS) * (0.7 + 0.6 * chance.random())
        living = [agent for agent in world.agents.values() if agent.process.alive]
        if kind in FORGETFUL and not self._lose_ends:
            self._make_worse(living, spell)
        match kind:
            case Kind.TRACKER_DOWN:
                world.network.tracker_is_up = False
                world.later(spell, self._tracker_is_back)
            case Kind.REDIS_DOWN:
                world.network.redis_goes_down()
                world.later(spell, self._redis_is_back)
            case Kind.REDIS_RESTART | Kind.REDIS_WIPED | Kind.FAILOVER:
                world.network.redis_goes_down()
                world.later(world.between(0.2, 6), self._redis_starts, kind)
            case Kind.FLUSH:
                world.server.flush()
                world.promises.forgot()
            case Kind.REDIS_CLOCK:
                self._set_redis_clock(chance.choice((-40.0, -4.0, -0.5, 0.5)))
            case Kind.GUARD_KILLED:
                if guards := [guard for guard in world.guards if guard.process.alive]:
                    chance.choice(guards).process.kill()
            case _ if living:
                self._befall(chance.choice(living), kind, spell)

    def _make_worse(self, living: list[Agent], spell: float) -> None:
        """What Redis has just forgotten must not be decided on, however silent its owner, or whatever people do."""
        world, chance = self._world, self._world.chance
        if living and chance.random() < _SELDOM_ALONE:
            self._befall(chance.choice(self._at_work() or living), chance.choice((Kind.PAUSE, Kind.CUT_REDIS)), spell)
        if world.board.pages and chance.random() < _SELDOM_ALONE:
            world.later(
                world.between(0, 4), world.person, chance.choice(PERSONS), chance.choice(list(world.board.pages))
            )

    def _befall(self, agent: Agent, kind: Kind, spell: float) -> None:
        world, host = self._world, agent.process.host
        world.trace.say(f"({kind})", agent.name)
        match kind:
            case Kind.CRASH:
                world.kill(agent)
            case Kind.HOST_LOST:
                world.kill(agent, silently=True)
            case Kind.DRAIN:
                world.drain(agent)
            case Kind.PAUSE:
                world.pause(agent.process, spell)
            case Kind.SUSPEND:
                host.suspend()
                world.later(spell, self._wake, agent.process)
            case Kind.CUT_REDIS | Kind.CUT_TRACKER:
                link = Link.REDIS if kind is Kind.CUT_REDIS else Link.TRACKER
                host.cut.add(link)
                world.later(spell, host.cut.discard, link)
            case Kind.CLOCK:
                host.ahead += world.chance.choice((-3600.0, -30.0, -3.0, 3.0, 30.0, 3600.0))

    def _wake(self, process: Process) -> None:
        if process.host.suspended:
            self._world.trace.say("wakes up", process.name)
            process.host.wake()
            self._world.later(_AWAKE, self._world.promises.woken)

    def _tracker_is_back(self) -> None:
        self._world.trace.say("the tracker is back")
        self._world.network.tracker_is_up = True

    def _redis_is_back(self) -> None:
        self._world.trace.say("Redis is back")
        self._world.network.redis_is_up = True

    def _replicate(self) -> None:
        self._snapshot = self._world.server.snapshot()

    def _redis_starts(self, kind: Kind) -> None:
        world = self._world
        if kind is Kind.FAILOVER and self._snapshot is not None:
            world.server.fail_over(self._snapshot)
            world.promises.forgot(went_back=True)
        else:
            world.server.restart(keep=kind is Kind.REDIS_RESTART)
            if kind is not Kind.REDIS_RESTART:
                world.promises.forgot()
        self._redis_is_back()

    def _set_redis_clock(self, by: float) -> None:
        """Back by any time; ahead only by less than the margins, once: whoever sets it ahead ends leases."""
        if by < 0 or self._world.redis_ahead <= 0:
            self._world.redis_ahead += by

    def mend(self) -> None:
        """No more trouble: everything works again, and whatever is late arrives."""
        world = self._world
        world.weather.rough = False
        world.network.redis_is_up = world.network.tracker_is_up = True
        for agent in list(world.agents.values()):
            host = agent.process.host
            host.ahead = 0.0
            host.cut.clear()
            self._wake(agent.process)
            world.go_on(agent.process)

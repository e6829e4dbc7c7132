"""`make chaos TICKETS=…`: torment agentsmith with real processes, then count what must not have happened.

Standard output gets one JSON object, as its last line; everything else goes to standard error. Exit codes: 0 every
promise held, 1 one did not (or a kind of fault never happened), 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.chaos import disk, older
from tests.chaos.checker import Verdict, check, read

if TYPE_CHECKING:
    from tests.chaos.play import Played, Terms

_FEW: Final = 300
"""Up to so many tickets, every kind of fault happens once, as fast as a busy machine of two cores can follow."""
_FAST: Final = 25.0
_STEADY: Final = 12.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run chaos as the arguments say."""
    wanted = _parse(arguments)
    folder = Path(tempfile.mkdtemp(prefix="agentsmith-chaos-"))
    keep = bool(wanted.keep)
    no_disk = disk.own_mounts() or disk.mount(folder / "disk")
    if no_disk:
        _tell(f"SKIPPED: a full disk ({disk.FULL_DISK}), because there is no small one to be had: {no_disk}")
    no_older = older.unpack(folder / "older")
    if no_older:
        _tell(f"SKIPPED: processes of an older release ({older.OTHER_RELEASE}): {no_older}")
    cannot = {disk.FULL_DISK: no_disk, older.OTHER_RELEASE: no_older}
    try:
        _prepare()
        verdict, played = asyncio.run(
            _interruptible(folder, wanted, cannot={name for name, why in cannot.items() if why})
        )
        keep = keep or not verdict.ok
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell("interrupted; every process was ended")
        return 130
    except BaseException:
        keep = True
        raise
    finally:
        disk.unmount(folder / "disk")
        if keep:
            _tell(f"histories and logs are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    _report(verdict, played, wanted)
    return 0 if verdict.ok and played.opened >= wanted.tickets else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tickets", type=_at_least_one, default=100, help="how many tickets (default: 100)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the same choices, not the same timing")
    parser.add_argument("--speed", type=_positive, default=None, help="how much faster than the default intervals")
    parser.add_argument("--limit", type=_positive, default=None, help="seconds after which no ticket is opened")
    parser.add_argument("--faults", default="", help="only these kinds, separated by commas (default: all)")
    parser.add_argument(
        "--sentinel", action="store_true", help="Redis fails over, instead of what befalls a single one"
    )
    parser.add_argument("--keep", action="store_true", help="keep histories and logs, also when all is well")
    return parser.parse_args(arguments)


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 100_000:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _terms(wanted: argparse.Namespace) -> Terms:
    from tests.chaos.play import Terms

    if wanted.tickets <= _FEW:
        return Terms(wanted.tickets, window=14, breath=0.5, once=True, limit=wanted.limit or 300.0)
    limit = wanted.limit or 300.0 + wanted.tickets * 0.15
    return Terms(wanted.tickets, window=80, breath=10.0, once=False, limit=limit, patience=180.0)


def _prepare() -> None:
    """Import everything, which takes seconds (so bad input was told before), and fork who is to fork daemons."""
    from tests.chaos import arena, daemon, faults, play  # noqa: F401 - for those that are forked, and for later
    from tests.e2e.daemons import fork_nursery

    fork_nursery(arena.PROGRAM, daemon.serve)


async def _interruptible(folder: Path, wanted: argparse.Namespace, *, cannot: Container[str]) -> tuple[Verdict, Played]:
    """Chaos, ended in order by Ctrl-C, and by the signals of a supervisor or a closed terminal too."""
    from tests.chaos.arena import CREW, open_arena
    from tests.chaos.faults import FAILOVERS, KINDS
    from tests.chaos.play import Play

    task = asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        # Once: a second Ctrl-C must not leave processes behind that the first is just about to end.
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    speed = wanted.speed or (_FAST if wanted.tickets <= _FEW else _STEADY)
    seed = random.SystemRandom().getrandbits(32) if wanted.seed is None else wanted.seed
    crew = ", ".join(f"{count} {role}" for role, count in CREW.items())
    _tell(f"{wanted.tickets} tickets on four simulated trackers; {crew}; seed {seed}")
    _tell(f"every interval is multiplied by {1 / speed:.4g} (a lease lives {120 / speed:.3g} s instead of 2 min)")
    possible = KINDS
    if wanted.sentinel:
        possible = {name: kind for name, kind in KINDS.items() if kind.track != "redis"} | FAILOVERS
    names = wanted.faults.split(",") if wanted.faults else list(possible)
    kinds = [possible[name] for name in names if name not in cannot]
    async with open_arena(folder, 1 / speed, disk=disk.FULL_DISK not in cannot, sentinel=wanted.sentinel) as arena:
        played = await Play(arena, kinds, _terms(wanted), seed, _tell).play()
    return check(read(folder / "history")), played


def _report(verdict: Verdict, played: Played, wanted: argparse.Namespace) -> None:
    for finding in (*verdict.findings[:50], *played.troubles[:20]):
        _tell(finding)
    for kind in verdict.missing:
        _tell(f"this kind of fault never happened: {kind}")
    if played.opened < wanted.tickets:
        _tell(f"only {played.opened} of {wanted.tickets} tickets were opened in time")
    _tell(f"{'':22} {'runs cut off':>12} {'p50':>8} {'p99':>8} {'max':>8}  seconds until the next run began")
    for kind, measured in sorted(verdict.recovery_by_fault.items()):
        _tell(f"{kind:22} {measured['count']:>12} {measured['p50']:>8} {measured['p99']:>8} {measured['max']:>8}")
    rate = verdict.tickets / played.seconds
    _tell(f"{played.seconds:.1f} s, {rate:.2f} tickets a second; {'all promises held' if verdict.ok else 'NOT well'}")
    result: dict[str, Any] = {**verdict.to_json(), "seconds": round(played.seconds, 1), "ok": verdict.ok}
    print(json.dumps(result), flush=True)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

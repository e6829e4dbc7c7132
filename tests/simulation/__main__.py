"""Playing many seeds: `python -m tests.simulation --from 0 --seeds 1000`, which is what `make simulate` does.

Exit code 0 when every promise held in every seed, 1 with the seed and its trace when one did not, 2 for bad input.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.simulation.played import Played, play_each

_SEEDS: Final = 1000
_CHUNK: Final = 10
_TOLD: Final = 400
"""Lines of a trace that are shown; `--trace` shows all of them."""


def main() -> int:
    """Play what the command line asks for."""
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set of texts must be the same in every replay.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # noqa: S606 - ourselves, once more
    if options.trace:
        from tests.simulation.seed import play  # dear to import, so only where it is wanted

        return max(_tell(play(options.first + at, whole_trace=True), whole=True) for at in range(options.seeds or 1))
    if options.these:
        played = [one for seed in options.these for one in play_each(range(seed, seed + 1))]
        return max(_tell(one, whole=False) if one.violations else 0 for one in played)
    return _play_all(options.first, options.seeds or _SEEDS, options.jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--seeds", type=int, help=f"how many (default: {_SEEDS}, or 1 with --trace)")
    parser.add_argument("--these", type=int, nargs="+", default=[], metavar="SEED", help="these instead, one by one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of every seed")
    options = parser.parse_args()
    if (
        min(options.first, *options.these, 0) < 0
        or options.jobs < 1
        or (options.seeds is not None and options.seeds < 1)
    ):
        parser.error("--from must not be negative, --seeds and --jobs must be at least 1")
    return options


def _play_all(first: int, seeds: int, jobs: int) -> int:
    started = time.monotonic()
    faults: Counter[str] = Counter()
    played = tickets = runs = 0
    virtual, slowest = 0.0, 0.0
    for one in _results(first, seeds, jobs):
        played += 1
        faults.update(one.faults)
        tickets, runs, virtual = tickets + one.tickets, runs + one.runs, virtual + one.seconds
        slowest = max(slowest, one.recovered_in)
        if one.violations:
            from tests.simulation.seed import play

            _progress(played, seeds, started, end="\n")
            return _tell(play(one.seed, whole_trace=True), whole=False)
        if played % 25 == 0 or played == seeds:
            _progress(played, seeds, started)
    took = time.monotonic() - started
    print(file=sys.stderr)
    print(f"{played} seeds from {first}: every promise held. {played / took:.1f} seeds/s on {jobs} processes")
    print(f"{tickets} tickets, {runs} runs, {virtual / 3600:.1f} virtual hours; all well {slowest:.0f} s after trouble")
    for kind, count in sorted(faults.items()):
        print(f"  {count:8}  {kind}")
    return 0


def _results(first: int, seeds: int, jobs: int) -> Iterator[Played]:
    """What came of each seed, in any order."""
    if jobs == 1:
        for seed in range(first, first + seeds):
            yield from play_each(range(seed, seed + 1))
        return
    chunks = [range(at, min(at + _CHUNK, first + seeds)) for at in range(first, first + seeds, _CHUNK)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = iter(chunks)
        under_way = {pool.submit(play_each, chunk) for chunk in itertools.islice(waiting, jobs * 2)}
        while under_way:
            done, under_way = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                if (chunk := next(waiting, None)) is not None:
                    under_way.add(pool.submit(play_each, chunk))
                yield from future.result()


def _progress(played: int, seeds: int, started: float, end: str = "") -> None:
    rate = played / max(0.001, time.monotonic() - started)
    print(f"\r{played}/{seeds} seeds, {rate:.1f} seeds/s", end=end, file=sys.stderr, flush=True)


def _tell(played: Played, *, whole: bool) -> int:
    """Print the trace of a seed, and what was broken in it."""
    lines = played.trace if whole else played.trace[-_TOLD:]
    if len(lines) < len(played.trace):
        print(f"… {len(played.trace) - len(lines)} lines before this; --trace shows them")
    print("\n".join(lines))
    for violation in played.violations:
        print(f"BROKEN {violation}")
    if played.violations:
        print(f"seed {played.seed} again, and all of it: python -m tests.simulation --from {played.seed} --trace")
    return 1 if played.violations else 0


if __name__ == "__main__":
    sys.exit(main())

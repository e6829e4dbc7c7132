"""`make mutants`: every mutant must be caught, by the simulation or by the test that it names.

Prints which seed catches it, and keeps the docs true.

Exit code 0 when all are caught, 1 when one is not or no longer applies.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.mutants.mutant import ROOT, Caught, DoesNotApply, Mutant, all_mutants, holds

PAGE: Final = ROOT / "docs" / "simulation.md"
_TABLE: Final = re.compile(r"(<!-- mutants -->\n).*?(<!-- /mutants -->)", re.DOTALL)


def documented(page: str) -> dict[str, int]:
    """The seed that the docs name for each mutant."""
    found = _TABLE.search(page)
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) \|", found[0] if found else "", flags=re.MULTILINE)
    return {name: int(seed) for name, seed in rows}


def with_table(page: str, caught: Sequence[tuple[Mutant, Caught]]) -> str:
    """The page with a table of these."""
    rows = [f"| `{mutant.name}` | {mutant.why} | {found.promise} | {found.seed} |" for mutant, found in caught]
    table = "\n".join(["| Mutant | What is wrong with it | Breaks | Seed |", "|---|---|---|---|", *rows])
    return _TABLE.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


def main() -> int:
    """Hunt every mutant, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mutants; the docs are left alone then")
    parser.add_argument("--seeds", type=int, default=3000, help="how many to try per mutant (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutants = [mutant for mutant in all_mutants() if not options.names or mutant.name in options.names]
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        parser.error(f"there is no mutant {sorted(unknown)[0]!r}")
    known = documented(PAGE.read_text())

    def hunt(mutant: Mutant) -> Caught | DoesNotApply | str | None:
        try:
            if mutant.test:
                return mutant.test if mutant.fails_its_test() else None
            if mutant.name in known and (quick := mutant.hunt(first=known[mutant.name], seeds=1)) and holds(quick.seed):
                return quick
            first = 0
            while found := mutant.hunt(first=first, seeds=options.seeds - first):
                if holds(found.seed):
                    return found
                print(f"seed {found.seed} fails without any mutant too: it proves nothing", file=sys.stderr)
                first = found.seed + 1
            return None
        except DoesNotApply as error:
            return error

    caught: list[tuple[Mutant, Caught]] = []
    tested = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, found in zip(mutants, pool.map(hunt, mutants), strict=True):
            match found:
                case Caught():
                    caught.append((mutant, found))
                    print(
                        f"{mutant.name:36} seed {found.seed:5}  {found.seconds:6.1f} s  {found.promise}: {found.what}"
                    )
                case str():
                    tested += 1
                    print(f"{mutant.name:36} {found}")
                case DoesNotApply():
                    print(f"{mutant.name:36} DOES NOT APPLY: {found}")
                case None:
                    print(f"{mutant.name:36} NOT CAUGHT by {mutant.test or f'{options.seeds} seeds'}")
            sys.stdout.flush()
    print(f"{len(caught) + tested} of {len(mutants)} mutants caught")
    if len(caught) + tested < len(mutants):
        return 1
    if not options.names:
        _write(PAGE, with_table(PAGE.read_text(), caught))
    return 0


def _write(page: Path, text: str) -> None:
    if text != page.read_text():
        page.write_text(text)
        print(f"{page.relative_to(ROOT)} names the seeds of today")


if __name__ == "__main__":
    sys.exit(main())

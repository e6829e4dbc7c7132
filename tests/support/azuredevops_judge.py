"""The published description as a judge of Azure DevOps, with what it is known to have forgotten.

Two of its omissions are mended here: the description has the comments' `format` for none of the requests that take it
(Microsoft's own client sends it), and it describes reading comments only by a list of ids, which is another operation on
the same path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from agentsmith.simulators import Recorded
from tests.support.contracts import ContractJudge


def judge_all(judge: ContractJudge, requests: Iterable[Recorded]) -> set[str]:
    """Judge everything; answers the last parts of the paths that no description covers."""
    undescribed: set[str] = set()
    for entry in requests:
        query = [(name, value) for name, value in QueryParams(entry.query).multi_items() if name != "format"]
        listing = entry.method == "GET" and entry.path.endswith("/comments")
        if listing or not judge.check_recorded(replace(entry, query=urlencode(query))):
            undescribed.add(entry.path.rpartition("/")[2])
    return undescribed

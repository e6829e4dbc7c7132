"""The published description as a judge of Azure DevOps, with what it is known to get wrong mended.

The description says `object` where it means any value (fields of work items, attributes of links, old and new values),
leaves out the `{count, value}` that every list is wrapped in, has the comments' `format` for none of the requests that
take it (Microsoft's own client sends it), describes reading comments only by ids, which is another operation on the
same path, and says 200 where a pull request that was made is answered with 201.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from tests.support.contracts import ContractJudge, Exchange

ANY_VALUE = ("oldValue", "newValue")


@dataclass(slots=True)
class AzureDevOpsJudge(ContractJudge):
    """Judges what was said to and by Azure DevOps."""

    platform: str = "azure-devops"

    def check_exchange(self, exchange: Exchange) -> bool:
        """See ContractJudge."""
        if exchange.method == "GET" and exchange.path.endswith("/comments"):
            self.undescribed.append(f"{exchange.method} {exchange.path}")
            return False
        query = [(name, value) for name, value in QueryParams(exchange.query).multi_items() if name != "format"]
        status = 200 if exchange.status == 201 and exchange.path.endswith("/pullrequests") else exchange.status
        mended = replace(exchange, query=urlencode(query), answer_body=_mended(exchange.answer_body), status=status)
        return super(AzureDevOpsJudge, self).check_exchange(mended)


def _mended(body: bytes) -> bytes:
    try:
        data = json.loads(body)
    except ValueError:
        return body
    if isinstance(data, dict) and set(data) == {"count", "value"}:
        data = [record for record in data["value"] if record is not None]
    return json.dumps(_objects(data)).encode()


def _objects(data: Any) -> Any:
    if isinstance(data, list):
        return [_objects(item) for item in data]
    if not isinstance(data, dict):
        return data
    shown = {name: _objects(value) for name, value in data.items()}
    for bag in ("fields", "attributes"):
        if isinstance(values := data.get(bag), dict):
            shown[bag] = {name: value if isinstance(value, dict) else {} for name, value in values.items()}
            for change in shown[bag].values():
                change.update({name: {} for name in ANY_VALUE if name in change})
    return shown

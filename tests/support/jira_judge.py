"""The published description of Jira Cloud as a judge, with its known mistakes mended.

It calls dates `date-time`, but Jira writes `2019-02-15T19:01:52.971-0800`, without the colon that the format wants, and
null where a change has no id, as the published webhooks show. And it gives a body to answers that say "no content".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.support.contracts import ContractJudge, Exchange

_DATE: Final = re.compile(r'("\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d)(\d\d")')
_CHANGE: Final = ("from", "fromString", "to", "toString")


@dataclass(slots=True)
class JiraJudge(ContractJudge):
    """Judges what was said to and by Jira Cloud."""

    platform: str = "jira"

    def check_exchange(self, exchange: Exchange) -> bool:
        """See ContractJudge."""
        body = exchange.answer_body
        if "json" in exchange.answer_headers.get("content-type", "") and body:
            text = _DATE.sub(r"\1:\2", body.decode())
            body = json.dumps(_mended(json.loads(text))).encode()
        headers = exchange.answer_headers
        if exchange.status == 204 and not body:
            headers, body = {**headers, "content-type": "application/json"}, b"{}"
        return super(JiraJudge, self).check_exchange(replace(exchange, answer_headers=headers, answer_body=body))


def _mended(node: Any) -> Any:
    if isinstance(node, dict):
        change = "fieldtype" in node
        return {k: _mended(v) for k, v in node.items() if not (change and k in _CHANGE and v is None)}
    return [_mended(item) for item in node] if isinstance(node, list) else node

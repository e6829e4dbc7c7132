"""`agentsmith quota`: who spent how many requests, how many are left, and when that changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentsmith.cli import output, reach, session
from agentsmith.config import Config
from agentsmith.store.quota import Account


def quota(file: Path | None, *, as_json: bool) -> None:
    """Show the accounts of every credential that was used within a day."""
    config = session.begin(file)
    accounts = asyncio.run(_accounts(config))
    if as_json:
        output.json_result({"reachable": accounts is not None, "credentials": _as_data(accounts)})
        return
    if accounts is None:
        output.say("Redis is not running, so nothing is known; start agentsmith: agentsmith up")
    elif not accounts:
        output.say("No request was sent within the last day.")
    for account in accounts or ():
        _show(account)


async def _accounts(config: Config) -> list[Account] | None:
    async with reach.store_if_up(config) as opened:
        return await opened.store.quotas.accounts() if opened else None


def _as_data(accounts: list[Account] | None) -> list[dict[str, Any]] | None:
    return None if accounts is None else [asdict(account) for account in accounts]


def _show(account: Account) -> None:
    output.title(account.credential)
    purposes = sorted({*account.counted, *account.free})
    spent = [[purpose, str(account.counted.get(purpose, 0)), str(account.free.get(purpose, 0))] for purpose in purposes]
    total = ["in all", str(sum(account.counted.values())), str(sum(account.free.values()))]
    output.rows((f"Since {_clock(account.since)}", "Counted", "Free (304)"), [*spent, total])
    left = [[a.bucket, f"{a.remaining} of {a.limit}", _until(a.reset)] for a in account.allowances]
    if left:
        output.rows(("Allowance", "Left", "Resets"), left)
    if account.paused_until is not None and account.paused_until > time.time():
        output.say(f"held back: {output.clean(account.paused_because)}, {_until(account.paused_until)}")


def _until(at: float) -> str:
    return f"in {output.ago(at - time.time())} ({_clock(at)})"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")

"""Healing: structures that stand side by side are brought into line, whatever made them disagree.

Every script changes both in one step, so they never should; but what is missing from a list that others go by would
keep its ticket waiting for ever, and nobody would see why.
"""

from __future__ import annotations

from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import Keys
from agentsmith.store.scripts import healing as scripts


async def align_intents(redis: Commands, keys: Keys) -> int:
    """Have every intent looked at, and nothing that is none; answers how many were put right.

    It walks over every key: for now and then.
    """
    family = keys.intent(TicketId(""))
    tickets = set(await redis.zrange(keys.intents, 0, -1))
    cursor = None
    while cursor != 0:
        cursor, found = await redis.scan(cursor or 0, match=f"{family}*", count=1000)
        tickets.update(key.removeprefix(family) for key in found)
    count = 0
    for ticket in sorted(tickets):
        count += int(
            await scripts.Align(
                intent=keys.intent(TicketId(ticket)), intents=keys.intents, ticket=TicketId(ticket)
            ).run(redis)
        )
    return count

"""Deliveries that failed are sent again, where the platform keeps them and lets us ask."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from agentsmith import metrics
from agentsmith.domain.errors import AgentSmithError, Refused, TicketNotFound
from agentsmith.domain.hooks import KeepsDeliveries
from agentsmith.ticker import Job, Ticker
from agentsmith.tickets.refusals import FAILS_ALL
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()


@dataclass(slots=True)
class Healer:
    """Asks one tracker's platform for failed deliveries again, until that is refused."""

    name: str
    tracker: KeepsDeliveries
    every: float
    public_url: str | None = None
    _refused: bool = False

    def job(self) -> Job:
        """For one term of a leader."""
        self._refused = False
        return Job(f"{self.name} healer", Ticker(self.every, jitter=self.every / 10), self.run_once)

    async def run_once(self) -> int:
        """Ask once; answers how many are sent again."""
        if self._refused:
            return 0
        try:
            with spending_for("heal"):
                healed = await self.tracker.redeliver_failed(self.name, self.public_url)
        except (Refused, TicketNotFound) as error:
            log.info("failed deliveries cannot be asked for again", tracker=self.name, why=str(error))
            self._refused = True
            return 0
        except FAILS_ALL:
            raise
        except Exception as error:
            unforeseen = None if isinstance(error, AgentSmithError) else error
            log.warning("healing failed, trying again", tracker=self.name, error=str(error), exc_info=unforeseen)
            return 0
        if healed:
            metrics.HEALED.labels(self.name).inc(healed)
            log.info("failed deliveries were asked for again", tracker=self.name, count=healed)
        return healed

"""Every key in Redis: its type, what it holds, and how long it lives. Nothing else in the code builds a key.

| Key (after the namespace)            | Type   | Holds                                                  | Lives    |
|--------------------------------------|--------|--------------------------------------------------------|----------|
| claim-lock:{platform}:{ticket}       | string | token of whoever reads and writes the ticket's label   | 30 s     |
| heartbeat:{ticket}                   | string | the lease: run, consumer, fence as JSON                | 2 min    |
| fence:{ticket}                       | string | the newest fence                                       | 30 days  |
| ended:{ticket}                       | string | fence of the last run that ended; it is not renewed    | 1 hour   |
| queue:jobs                           | list   | entries of requests that wait, oldest first            | for ever |
| queue:index                          | hash   | ticket -> the whole request, until acknowledged        | for ever |
| queue:processing:{consumer}          | list   | requests taken, not yet acknowledged                   | for ever |
| dead-letters                         | list   | requests nobody could run, with the reason             | for ever |
| running                              | hash   | ticket -> lease, of every run that has not settled     | for ever |
| released                             | zset   | tickets whose guard let the lease go, by time          | for ever |
| suspects                             | zset   | tickets without a sign of life, by time of first look  | for ever |
| unrenewed:{ticket}                   | string | since when a live consumer's run has no heartbeat      | 1 hour   |
| counters:{ticket}                    | hash   | deliveries and attempts since the last final status    | 30 days  |
| history:{ticket}                     | list   | what happened to its runs since the last final status  | 30 days  |
| claims:{ticket}                      | zset   | recent claims, for the loop limit                      | window   |
| reservations                         | zset   | tickets being claimed, by the time their place lapses  | for ever |
| places:{what}                        | hash   | tickets that take up room: in all, of one tracker, …   | 30 days  |
| full:{what}                          | string | all the many tickets there were in hand just now       | 250 ms   |
| intent:{ticket}                      | hash   | a decided move that is not yet known to be published   | for ever |
| intents                              | zset   | tickets with an intent, by the time to look at it      | for ever |
| published:{ticket}                   | string | last status that we published                          | 1 hour   |
| sticky:{ticket}                      | string | the platform's id of our comment                        | 30 days  |
| branch:{ticket}                      | string | the branch that its work is on                         | 30 days  |
| pin:{ticket}                         | string | the text that was vetted, until its run is over        | 30 days  |
| question:{ticket}                    | string | what its worker asked, until a run ended with answers  | 30 days  |
| stop:{ticket}                        | string | a stop request, until the run ended                    | 7 days   |
| follow-up:{ticket}                   | string | asked for again while it was running                   | 7 days   |
| due                                  | zset   | waiting tickets, by the time they are due              | for ever |
| parked                               | zset   | tickets that wait for a person, by since when          | for ever |
| where:{ticket}                       | string | tracker and key of a ticket that is parked or recovered | 30 days |
| signals:inbox                        | list   | signals that wait                                      | for ever |
| signals:index                        | hash   | ticket and kind of a waiting signal -> its entry's name | for ever |
| signals:later                        | zset   | signals put off, by the time to look again             | for ever |
| signals:later-payloads               | hash   | the same signals                                       | for ever |
| signals:held                         | zset   | signals held back for want of room, by time            | for ever |
| signals:held-payloads                | hash   | the same signals, and what they want room in           | for ever |
| signals:held-lines                   | hash   | the combinations of places that some of them want      | for ever |
| signals:held-line:{places}           | zset   | the signals that want room in these, by time           | for ever |
| delivery:{tracker}:{delivery}        | string | a webhook delivery that was handed over                | 1 hour   |
| deliveries:{tracker}                 | list   | the latest deliveries, without secrets, to replay them | 3 days   |
| announced:{ticket}                   | string | when a webhook last told of the ticket                 | 1 day    |
| command:{tracker}:{remark}           | string | a command in a comment: begun, or done                 | 30 days  |
| signals:processing:{consumer}        | list   | signals taken, not yet acknowledged                    | for ever |
| consumer:{consumer}                  | string | liveness of one process                                | 30 s     |
| consumers                            | zset   | every process that may own a processing list           | for ever |
| reasons:{ticket}                     | list   | what the latest looks at the ticket saw                | 30 days  |
| last-word:{ticket}                   | string | how and when a ticket ended that nobody claimed since  | 30 days  |
| rejected:{ticket}                    | string | revision of a ticket that a gate turned away           | 10 min   |
| leader:{role}                        | string | the leader: who, since when, fence, as JSON            | 30 s     |
| leader-fence:{role}                  | string | the newest fence of a leader                           | 30 days  |
| leader-cycle:{role}                  | string | when the leader last finished a cycle, and what it did | 1 day    |
| quota:{credential}                   | hash   | what a platform's API allows us, and who must wait     | 2 hours  |
| spent:{credential}                   | hash   | requests by purpose, counted or free                   | 1 day    |
| credentials                          | zset   | credentials that were used lately                      | 1 day    |
| refusals                             | hash   | what a tracker refuses us, since when, and what helps  | 30 days  |
| jira-label-lock:{ticket}             | string | wraps Jira's label write inside the claim window       | 10 s     |
| epoch                                | string | run id of the server whose state we trust              | for ever |
| settling                             | string | stands while nothing may be declared dead              | 50 s     |
| probe                                | string | nothing; whether it can be written says something      | 1 min    |

"For ever" lists, hashes and sorted sets shrink to nothing as work is settled: Redis deletes them when empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

from agentsmith.domain.ticket import TicketId

Key = NewType("Key", str)
"""The whole name of a key in Redis, as `Keys` builds it."""

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

FENCE_MS: Final = 30 * DAY_MS
COUNTERS_MS: Final = 30 * DAY_MS
HISTORY_MS: Final = 30 * DAY_MS
STICKY_MS: Final = 30 * DAY_MS
PIN_MS: Final = 30 * DAY_MS
QUESTION_MS: Final = 30 * DAY_MS
WHERE_MS: Final = 30 * DAY_MS
STOP_MS: Final = 7 * DAY_MS
PUBLISHED_MS: Final = HOUR_MS
ENDED_MS: Final = HOUR_MS
UNRENEWED_MS: Final = HOUR_MS
REASONS_MS: Final = 30 * DAY_MS
REASONS_AFTER_END_MS: Final = HOUR_MS
REJECTED_MS: Final = 600_000
CYCLE_MS: Final = DAY_MS
DELIVERY_MS: Final = HOUR_MS
"""Whatever comes again later is looked at again, which changes nothing; there are a dozen for every ticket."""
DELIVERIES_MS: Final = 3 * DAY_MS
ANNOUNCED_MS: Final = DAY_MS
COMMAND_MS: Final = 30 * DAY_MS
PLACES_MS: Final = 30 * DAY_MS
FULL_MS: Final = 250
"""As often as those who wait for room are looked at."""
QUOTA_MS: Final = 2 * HOUR_MS
LABEL_LOCK_MS: Final = 10_000
REFUSALS_MS: Final = 30 * DAY_MS
SPENT_MS: Final = DAY_MS
PROBE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Keys:
    """Names every key under one namespace."""

    namespace: str = "agentsmith"

    @property
    def queue(self) -> Key:
        return Key(f"{self.namespace}:queue:jobs")

    @property
    def queue_index(self) -> Key:
        return Key(f"{self.namespace}:queue:index")

    @property
    def dead_letters(self) -> Key:
        return Key(f"{self.namespace}:dead-letters")

    @property
    def running(self) -> Key:
        return Key(f"{self.namespace}:running")

    @property
    def released(self) -> Key:
        return Key(f"{self.namespace}:released")

    @property
    def suspects(self) -> Key:
        return Key(f"{self.namespace}:suspects")

    @property
    def reservations(self) -> Key:
        return Key(f"{self.namespace}:reservations")

    @property
    def intents(self) -> Key:
        return Key(f"{self.namespace}:intents")

    @property
    def due(self) -> Key:
        return Key(f"{self.namespace}:due")

    @property
    def parked(self) -> Key:
        return Key(f"{self.namespace}:parked")

    @property
    def inbox(self) -> Key:
        return Key(f"{self.namespace}:signals:inbox")

    @property
    def inbox_index(self) -> Key:
        return Key(f"{self.namespace}:signals:index")

    @property
    def inbox_later(self) -> Key:
        return Key(f"{self.namespace}:signals:later")

    @property
    def later_payloads(self) -> Key:
        return Key(f"{self.namespace}:signals:later-payloads")

    @property
    def held(self) -> Key:
        return Key(f"{self.namespace}:signals:held")

    @property
    def held_payloads(self) -> Key:
        return Key(f"{self.namespace}:signals:held-payloads")

    @property
    def held_lines(self) -> Key:
        return Key(f"{self.namespace}:signals:held-lines")

    def held_line(self, places: str) -> Key:
        return Key(f"{self.namespace}:signals:held-line:{places}")

    @property
    def consumers(self) -> Key:
        return Key(f"{self.namespace}:consumers")

    @property
    def epoch(self) -> Key:
        return Key(f"{self.namespace}:epoch")

    @property
    def settling(self) -> Key:
        return Key(f"{self.namespace}:settling")

    @property
    def probe(self) -> Key:
        return Key(f"{self.namespace}:probe")

    @property
    def refusals(self) -> Key:
        return Key(f"{self.namespace}:refusals")

    @property
    def credentials(self) -> Key:
        return Key(f"{self.namespace}:credentials")

    def quota(self, credential: str) -> Key:
        return Key(f"{self.namespace}:quota:{credential}")

    def spent(self, credential: str) -> Key:
        return Key(f"{self.namespace}:spent:{credential}")

    def claim_lock(self, platform: str, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:claim-lock:{platform}:{ticket}")

    def heartbeat(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:heartbeat:{ticket}")

    def fence(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:fence:{ticket}")

    def ended(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:ended:{ticket}")

    def unrenewed(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:unrenewed:{ticket}")

    def counters(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:counters:{ticket}")

    def history(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:history:{ticket}")

    def claims(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:claims:{ticket}")

    def intent(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:intent:{ticket}")

    def published(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:published:{ticket}")

    def sticky(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:sticky:{ticket}")

    def branch(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:branch:{ticket}")

    def pin(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:pin:{ticket}")

    def question(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:question:{ticket}")

    def stop(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:stop:{ticket}")

    def follow_up(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:follow-up:{ticket}")

    def where(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:where:{ticket}")

    def jira_label_lock(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:jira-label-lock:{ticket}")

    def delivery(self, tracker: str, delivery: str) -> Key:
        return Key(f"{self.namespace}:delivery:{tracker}:{delivery}")

    def deliveries(self, tracker: str) -> Key:
        return Key(f"{self.namespace}:deliveries:{tracker}")

    def announced(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:announced:{ticket}")

    def command(self, tracker: str, remark: str) -> Key:
        return Key(f"{self.namespace}:command:{tracker}:{remark}")

    def places(self, what: str) -> Key:
        return Key(f"{self.namespace}:places:{what}")

    def full(self, what: str) -> Key:
        return Key(f"{self.namespace}:full:{what}")

    def reasons(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:reasons:{ticket}")

    def last_word(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:last-word:{ticket}")

    def rejected(self, ticket: TicketId) -> Key:
        return Key(f"{self.namespace}:rejected:{ticket}")

    def queue_processing(self, consumer: str) -> Key:
        return Key(f"{self.namespace}:queue:processing:{consumer}")

    def inbox_processing(self, consumer: str) -> Key:
        return Key(f"{self.namespace}:signals:processing:{consumer}")

    def consumer(self, consumer: str) -> Key:
        return Key(f"{self.namespace}:consumer:{consumer}")

    def leader(self, role: str) -> Key:
        return Key(f"{self.namespace}:leader:{role}")

    def leader_fence(self, role: str) -> Key:
        return Key(f"{self.namespace}:leader-fence:{role}")

    def leader_cycle(self, role: str) -> Key:
        return Key(f"{self.namespace}:leader-cycle:{role}")

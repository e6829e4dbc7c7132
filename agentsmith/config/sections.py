"""The parts of the configuration, each with its defaults; they stand here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from agentsmith.config.durations import Duration, Grace, Size
from agentsmith.config.lacking import demand
from agentsmith.config.names import (
    AccessName,
    Names,
    Namespace,
    Networks,
    PublicUrl,
    RepositoryName,
    Secret,
    Secrets,
    absolute,
    legal_address,
    legal_link,
)
from agentsmith.config.section import Section
from agentsmith.domain.tracker import Access

_SLOWEST_POLL: Final = Duration(86400)


class Redis(Section):
    """Where the shared state lives; with no `url`, a server of our own is started."""

    url: Annotated[SecretStr, AfterValidator(legal_address)] | None = None
    server: Annotated[str, Field(min_length=1)] | None = None
    """The binary (name or path) to start instead of the one that is shipped."""
    namespace: Namespace = "agentsmith"
    """The first part of every key."""


class Server(Section):
    """Where webhooks and the status pages are served."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    public_url: PublicUrl | None = None
    """Where the platforms reach this server; `agentsmith webhooks` and the healer need to know."""
    api_token: Secret | None = None
    """What `/api/v1` and `/metrics` ask for as a bearer token; without it they answer this machine only."""
    trusted_proxies: Networks = ()
    """Proxies in front of us whose X-Forwarded-For is believed; without any, it is not looked at."""


class Lease(Section):
    """Who owns a ticket, for how long, and how early that stops being trusted."""

    ttl: Duration = Duration(120)
    """How long the owner may be silent before the ticket is taken from it."""
    renew_every: Duration = Duration(30)
    margin: Duration = Duration(20)
    """Children are stopped, and no write begins, this long before the lease can lapse."""
    claim_lock: Duration = Duration(30)
    leader: Duration = Duration(30)


class Consumer(Section):
    """How runs are taken and ended."""

    slots: Annotated[int, Field(ge=1, le=1000)] = 2
    """How many tickets this process works on at once."""
    drain_timeout: Grace = Grace(30)
    """How long a stopping process lets its runs finish before it gives them back."""
    kill_grace: Grace = Grace(5)
    """Between the polite signal to a child and the one that it cannot ignore."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    max_deliveries: Annotated[int, Field(ge=1, le=100)] = 3
    stop_poll: Duration = Duration(0.5)
    """How often a run looks whether it was asked to stop."""


class RunLimits(Section):
    """What one run may use of the machine, where the platform lets us say so; no limit where none is given."""

    memory: Size | None = None
    """By the run's cgroup, else for each process by itself."""
    cpus: Annotated[float, Field(gt=0, le=1024)] | None = None
    """By the run's cgroup, else rounded up to whole processors."""
    processes: Annotated[int, Field(ge=1)] | None = None
    """By the run's cgroup only."""
    cgroup: Annotated[Path, AfterValidator(absolute)] | None = None
    """A folder of a cgroup v2 tree that was delegated to us; each run gets a group of its own below it."""


class Run(Section):
    """How a run goes, and its limits."""

    timeout: Duration = Duration(7200)
    step_timeout: Duration = Duration(3600)
    stall_timeout: Duration = Duration(1800)
    """A command that prints nothing for so long is stopped."""
    log_limit: Size = Size(10 * 1024 * 1024)
    """How much of a step's output is kept in its log, beside the last 256 KiB."""
    artifact_limit: Size = Size(50 * 1024 * 1024)
    """How much of the files that a run hands over is kept."""
    retry_backoff: Duration = Duration(60)
    """The first wait after exit code 75; it doubles each time."""
    agent: Annotated[str, Field(min_length=1)] = "claude"
    """Who works where an `agent` step names nobody."""
    comment_every: Duration = Duration(60)
    """How often, at most, a run's comment is brought up to date while it runs."""
    checkpoint_every: Duration | None = None
    """How often a running step's work is pushed as a [wip] commit; only at the end when it is not given."""
    link: Annotated[str, AfterValidator(legal_link)] | None = None
    """Where people can see a run, for the comment: an address with `{run}` in it."""
    runner: Literal["process"] = "process"
    """What commands run in: processes of this machine."""
    user: Annotated[str, Field(min_length=1)] | None = None
    """The user that commands run as; our own when it is not given."""
    limits: RunLimits = RunLimits()
    keep_for: Duration = Duration(30 * 86400)
    """How long the records and logs of runs are kept."""
    keep_size: Size = Size(2 * 1024**3)
    """How many bytes they may hold together; the oldest go first, however young they are."""


class Workspaces(Section):
    """How long the folders of tickets are kept on the machine that worked on them."""

    keep_for: Duration = Duration(14 * 86400)
    """Counted from the last change in a folder; a ticket in hand keeps its own."""
    keep_unsaved_for: Duration = Duration(60 * 86400)
    """The same where work was never pushed."""
    keep_size: Size = Size(20 * 1024**3)
    """How much room they may take together; the oldest go first."""


class LoopLimit(Section):
    """How often one ticket may be claimed before we suspect a loop."""

    claims: Annotated[int, Field(ge=1, le=100_000)] = 10
    per: Duration = Duration(3600)


class Claim(Section):
    """How tickets are taken in."""

    loop_limit: LoopLimit = LoopLimit()
    capacity: Annotated[int, Field(ge=1)] | None = None
    """How many tickets may be queued and running together; no limit when it is not given. A tracker and a pipeline
    may have a `capacity` of their own."""
    retry_backoff: Duration = Duration(5)


class Housekeeping(Section):
    """How often the leader looks after what went wrong."""

    sweep_every: Duration = Duration(5)
    stale_every: Duration = Duration(60)
    reconcile_every: Duration = Duration(600)
    heal_every: Duration = Duration(300)
    """How often failed webhook deliveries are asked for again, where the platform keeps them."""
    tidy_every: Duration = Duration(3600)


class Allow(Section):
    """Who may start work by setting a label (P7)."""

    access: Annotated[AccessName, Field(json_schema_extra={"default": "write"})] = Access.WRITE
    """What a person must at least be allowed in the project."""
    users: Names = ()
    """These may in any case."""
    teams: Names = ()
    """Members of these may: teams (GitHub, Azure DevOps) or groups (GitLab, Jira)."""
    roles: Names = ()
    """Whoever has one of these roles in the project may, in the platform's own words."""
    bots: bool = False
    """Whether programs may."""
    edits: Literal["vetted", "anyone"] = "vetted"
    """Whose changes of the text may run that were made after the trigger was set: of those who may set it, or
    anyone's. What nobody can tell who changed it counts as a stranger's."""


class Log(Section):
    """What is written to standard error."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class RepositorySettings(Section):
    """What every repository has; a code host adds its own settings in a subclass."""

    platform: str


class TrackerSettings(Section):
    """What every tracker has; a platform adds its own settings in a subclass."""

    idle_stretch: ClassVar[float] = 4.0
    """How many times `poll_interval` the looks may drift apart while nothing changes, where a look costs something."""

    platform: str
    poll_interval: Duration = Duration(60)
    idle_poll_interval: Duration | None = None
    """How far apart the looks may drift while nothing changes; None means some times `poll_interval`, which is up to
    the platform."""
    webhook_secret: Secrets = ()
    """One or several; without one, webhooks for this tracker are refused and polling does the work."""
    insecure: bool = False
    """Take webhooks without a secret. Anybody who can reach the port can then make us look at tickets."""
    allow: Allow | None = None
    """Who may start work here; None means the top-level `allow`."""
    code: RepositoryName | None = None
    """Where the code of its tickets is, one of `repositories`; None means the tracker's own repository, if any."""
    capacity: Annotated[int, Field(ge=1)] | None = None
    """How many tickets of this tracker may be queued and running together; no limit when it is not given."""

    case_counts: ClassVar[bool] = False
    """Whether the platform takes `Fix` and `fix` for two labels."""
    unsupported_filters: ClassVar[frozenset[str]] = frozenset()
    """The filters of triggers that tickets of this platform can never fit, because it does not know of such a thing."""

    @field_validator("poll_interval", "idle_poll_interval")
    @classmethod
    def _not_off(cls, interval: Duration | None) -> Duration | None:
        if interval is not None and interval > _SLOWEST_POLL:
            # Webhooks get lost; polling is what P2 rests on.
            raise ValueError("is too slow; polling can be slowed down to 1d, but not switched off")
        return interval

    @property
    def slowest_poll(self) -> Duration:
        """The longest time between two looks at a tracker that works."""
        idle = self.idle_poll_interval
        return Duration(max(self.poll_interval, self.poll_interval * self.idle_stretch if idle is None else idle))

    @property
    def polled(self) -> str:
        """How often the tracker is looked at, for people: `every 1m, or 4m while nothing changes`."""
        seldom = (
            f", or {self.slowest_poll.text} while nothing changes" if self.slowest_poll > self.poll_interval else ""
        )
        return f"every {self.poll_interval.text}{seldom}"

    def webhook_secrets(self) -> tuple[str, ...]:
        """The secrets that a webhook may be signed with."""
        return tuple(demand(secret.get_secret_value()) for secret in self.webhook_secret)

    def own_repository(self) -> RepositorySettings | None:
        """The code beside the tickets, where the platform keeps both in one place; None where it does not."""
        return None

    def project_identity(self) -> str:
        """What this tracker watches, in canonical spelling: two trackers on one project are an error."""
        return self.platform

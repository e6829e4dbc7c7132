"""Trusted git: every command of ours, with all of its surroundings pinned.

Nothing that a worker, a repository or the machine's user has configured takes part: no system or user configuration,
no hooks, no prompts, no replaced objects, no protocol but the one in use. The repository is always named (GIT_DIR),
never looked for; a command may use the network only where `online` says so, and has a credential only then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentsmith.domain.errors import MachineTrouble
from agentsmith.domain.forge import GitCredential
from agentsmith.git.credentials import Address, courier
from agentsmith.git.errors import (
    CredentialRefused,
    GitError,
    GitFailed,
    GitFailedHere,
    GitStopped,
    GitTooOld,
    NotUnderstood,
    RepositoryGone,
    RepositoryUnreachable,
    TooLarge,
)
from agentsmith.git.locks import HOLD
from agentsmith.git.shell import CommandNotStarted, EndedCommand, GitShell

OLDEST: Final = (2, 38)
"""`merge-tree --write-tree`, which merges without a work tree, came with this."""
_PASSED_ON: Final = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSH_AUTH_SOCK",
    "TMPDIR",
)
_TRUSTED: Final = (("GIT_SSL_CAINFO", "SSL_CERT_FILE"), ("GIT_SSL_CAPATH", "SSL_CERT_DIR"))
"""What git calls the certificates that everything else of ours trusts; git does not look there by itself."""
_SURROUNDINGS: Final = {
    "LC_ALL": "C",  # we read what git says
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4",
    "GIT_SSH_VARIANT": "ssh",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
}
_PINNED: Final = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.quotePath", "false"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.fsync", "committed"),  # what we call committed must survive a power cut
    ("credential.helper", ""),
    ("credential.interactive", "false"),
    ("credential.useHttpPath", "false"),
    ("http.followRedirects", "initial"),
    ("protocol.version", "2"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("rerere.enabled", "false"),
    ("color.ui", "false"),
    ("advice.pushUpdateRejected", "false"),
    ("i18n.commitEncoding", "utf-8"),
    ("i18n.logOutputEncoding", "utf-8"),
)
_LARGEST_ANSWER: Final = 512 * 1024**2
_NOTHING: Final = "none"
_CREDENTIAL: Final = re.compile(
    r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|told us to quit"
    r"|returned error: 40[13]\b|Permission denied \(|Invalid username or|HTTP Basic: Access denied",
    re.I,
)
_GONE: Final = re.compile(
    r"returned error: (?:404|410)\b|repository .* (?:not found|does not exist)|Repository not found"
    r"|does not appear to be a git repository|project you were looking for could not be found|TF401019",
    re.I,
)
AWAY: Final = re.compile(
    r"Could not resolve|Failed to connect|Couldn't connect|Connection (?:refused|reset|timed out|closed)|timed? ?out"
    r"|Operation too slow|Empty reply|early EOF|hung up unexpectedly|unexpected disconnect|RPC failed"
    r"|returned error: (?:408|429|5\d\d)\b|SSL|TLS|certificate|Host key verification|Network is unreachable"
    r"|transfer closed|bytes of body are still expected|No route to host|unable to access|Recv failure|Send failure",
    re.I,
)
_HERE: Final = re.compile(
    r"(?:^|: )(?:No space left on device|Disk quota exceeded|Too many open files(?: in system)?|Read-only file system"
    r"|Input/output error|Cannot allocate memory|Out of memory, \w+ failed.*|Resource temporarily unavailable)\.?$",
    re.I,
)
"""At the end of a line that is git's own: what begins with `remote:` the server says about itself."""
_USERINFO: Final = re.compile(r"(?<=://)[^/\s@]+@")
_LONGEST_WORDS: Final = 600
_NEXT_LINE: Final = " · "
_counter = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GitOutput:
    """The output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Its output as one stripped string."""
        return self.out.decode("utf-8", "replace").strip()

    @property
    def lines(self) -> list[str]:
        """Its output line by line, by git's own grammar: a ref may hold whatever else `str.splitlines` splits at."""
        return [line.decode("utf-8", "surrogateescape") for line in self.out.split(b"\n") if line]

    @property
    def items(self) -> list[str]:
        """Its output as NUL-separated names, which may be any bytes but NUL."""
        return [os.fsdecode(item) for item in self.out.split(b"\0") if item]


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds for one command, with and without network, and for a transfer that stalls."""

    network: float
    local: float
    stall: float


@dataclass(slots=True)
class Git:
    """Runs git for one run, against one server."""

    shell: GitShell
    url: str
    credential: Callable[[], Awaitable[GitCredential | None]]
    limits: TimeLimits
    author: Mapping[str, str] = field(default_factory=dict)
    config: tuple[tuple[str, str], ...] = ()
    """More pinned configuration, for all commands."""

    async def __call__(
        self,
        *args: str,
        repo: Path | None,
        work_tree: Path | None = None,
        index: Path | None = None,
        stdin: bytes = b"",
        into: Path | None = None,
        allow: str = _NOTHING,
        config: Sequence[tuple[str, str]] = (),
        fine: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a command that needs no network. Exit codes that are not `fine` raise.

        `into` sends the output to a file. `allow` names the one protocol that may be spoken (`file`).
        """
        env = self._env(repo, work_tree, index, allow, config)
        return await self._run(("git", *args), env, work_tree or repo, stdin, into, self.limits.local, fine)

    async def online(
        self,
        *args: str,
        repo: Path | None,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        into: Path | None = None,
        busy: Path | None = None,
        config: Sequence[tuple[str, str]] = (),
        env: Mapping[str, str] | None = None,
        fine: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a command that may speak to the server, and to nobody else, with a credential for this one command.

        `busy` is a lock file that the command itself holds for as long as any process of it lives.
        """
        credential = await self.credential()
        address = Address.of(self.url)
        stall = (("http.lowSpeedLimit", "1"), ("http.lowSpeedTime", str(max(1, round(self.limits.stall)))))
        argv: tuple[str, ...] = ("git", *args)
        if busy is not None:
            argv = (*HOLD, str(busy), *argv)
        async with courier(credential, address, ancestor=self.shell.ancestor) as (helper, secrets):
            whole = self._env(repo, work_tree, None, address.protocol, (*stall, *helper, *config)) | dict(env or {})
            whole.pop("GIT_NO_LAZY_FETCH")
            return await self._run(
                argv, whole, work_tree or repo, stdin, into, self.limits.network, fine, secrets=secrets
            )

    async def program(self, argv: Sequence[str], *, stdin: bytes = b"", into: Path | None = None) -> GitOutput:
        """Run a program of ours in the same way: offline, and without any repository."""
        env = self._env(None, None, None, _NOTHING, ())
        return await self._run(tuple(argv), env, None, stdin, into, self.limits.local, (0,))

    def _env(
        self,
        repo: Path | None,
        work_tree: Path | None,
        index: Path | None,
        allow: str,
        config: Sequence[tuple[str, str]],
    ) -> dict[str, str]:
        home = self.shell.scratch / "home"
        home.mkdir(exist_ok=True, mode=0o700)
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        for theirs, ours in _TRUSTED:
            if ours in env:
                env.setdefault(theirs, env[ours])
        env |= _SURROUNDINGS
        env |= self.author
        env |= {"PATH": search_path(), "HOME": str(home), "GIT_ALLOW_PROTOCOL": allow, "GIT_NO_LAZY_FETCH": "1"}
        if repo is not None:
            env["GIT_DIR"] = str(repo)
        if work_tree is not None:
            env["GIT_WORK_TREE"] = str(work_tree)
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        settings = (*_PINNED, *self.config, *config)
        env["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
        return env

    async def _run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path | None,
        stdin: bytes,
        into: Path | None,
        timeout: float,
        fine: Sequence[int],
        secrets: Sequence[str] | None = None,
    ) -> GitOutput:
        async with _files(self.shell.scratch, stdin) as (given, out, err):
            try:
                ended = await self.shell.run(
                    argv,
                    env=env,
                    cwd=cwd or self.shell.scratch,
                    stdin=given,
                    stdout=into or out,
                    stderr=err,
                    timeout=timeout,
                )
            except CommandNotStarted as error:
                raise GitTooOld(f"git could not be started: {error}") from None
            said = _words(err, secrets or ())
            if ended.code is None or ended.code not in fine:
                raise trouble(argv, ended, said, timeout=timeout, online=secrets is not None)
            if into is not None:
                return GitOutput(ended.code, b"", said)
            if out.stat().st_size > _LARGEST_ANSWER:
                raise TooLarge(f"git's answer is larger than {_LARGEST_ANSWER} bytes")
            return GitOutput(ended.code, out.read_bytes(), said)


@contextlib.asynccontextmanager
async def _files(scratch: Path, stdin: bytes) -> AsyncIterator[tuple[Path, Path, Path]]:
    """Files for one command: what it reads, what it says, what it complains of."""
    stem = scratch / f"git-{os.getpid()}-{next(_counter)}"
    given, out, err = (stem.with_suffix(suffix) for suffix in (".in", ".out", ".err"))
    try:
        given.touch(mode=0o600)
        given.write_bytes(stdin)
        for path in (out, err):
            path.touch(mode=0o600)
        yield given, out, err
    finally:
        for path in (given, out, err):
            path.unlink(missing_ok=True)


def search_path(environ: Mapping[str, str] = os.environ) -> str:
    """PATH without entries that depend on where we stand: a workspace must not supply programs."""
    entries = [entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(entries) or os.defpath


def trouble(
    argv: Sequence[str], ended: EndedCommand, said: str, *, timeout: float, online: bool
) -> GitError | MachineTrouble:
    """The error for what happened, from git's messages where the exit code is not specific."""
    words = [arg for arg in argv[argv.index("git") + 1 :] if not arg.startswith("-")] if "git" in argv else []
    what = f"git {words[0]}" if words else Path(argv[-1] if len(argv) < 3 else argv[2]).stem
    if ended.timed_out or ended.stopped:
        how = (
            f"did not end within {timeout:g} s and was stopped" if ended.timed_out else f"was stopped: {ended.stopped}"
        )
        return (RepositoryUnreachable if online else GitStopped)(f"{what} {how}")
    if here := [line for line in said.split(_NEXT_LINE) if not line.startswith("remote:") and _HERE.search(line)]:
        return GitFailedHere(f"{what} could not go on: {here[0]}")
    if online and _CREDENTIAL.search(said):
        return CredentialRefused(
            f"the server does not let us in: check the token of this repository and its rights. It says: {said}"
        )
    if online and _GONE.search(said):
        return RepositoryGone(f"there is no such repository, or it is hidden from us. The server says: {said}")
    if online and AWAY.search(said):
        return RepositoryUnreachable(f"the server cannot be reached: {said}")
    if ended.code is None:  # not by us: by the kernel, for want of memory, or by hand
        return GitFailedHere(f"{what} was killed: {said or 'it said nothing'}")
    failed = f"{what} failed with exit code {ended.code}: {said or 'it said nothing'}"
    return NotUnderstood(failed) if online else GitFailed(failed)


def _words(err: Path, secrets: Sequence[str]) -> str:
    """The last line that a command wrote to stderr, without credentials and control characters."""
    size = err.stat().st_size
    with err.open("rb") as file:
        file.seek(max(0, size - 16_384))
        text = file.read().decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    text = _USERINFO.sub("***@", text)
    lines = [line.rstrip("\r").rpartition("\r")[2].strip() for line in text.split("\n")]
    flat = _NEXT_LINE.join(line for line in lines if line)
    flat = "".join(c if c.isprintable() else "?" for c in flat)
    return flat if len(flat) <= _LONGEST_WORDS else "…" + flat[-_LONGEST_WORDS:]


async def check_version(git: Git) -> None:
    """Refuse to work with a git that lacks what we rely on."""
    said = (await git("version", repo=None)).text
    found = re.search(r"(\d{1,9})\.(\d{1,9})", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise GitTooOld(f"git {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is `{said}`")

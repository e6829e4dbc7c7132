"""What can go wrong between us and a repository. Callers branch on the class or on `retryable`, never on git's words.

GitError
  BranchRefused             git would not accept the name of the branch                  not retryable
  PlaceRefused              the workspace would lie outside the root                     not retryable
  WorkspaceBusy             another run still holds the workspace                        retryable
  RepositoryGone            no such repository, or no right to see it                    not retryable
  RepositoryUnreachable     the network, the server, or a time-out                       retryable
    NotUnderstood           the server's answer makes no sense to git, or to us          retryable
  CommitGone                the server has no such commit, or none that it hands out     not retryable
  CredentialRefused         the server wants a credential, and refuses ours              not retryable
  BaseMissing               the branch to start from is not there                        not retryable
  PushRefused               the server took the pack and said no, by a rule of its own   not retryable
  TooLarge                  more than we are willing to take over or to scan             not retryable
  LfsMissing                LFS was asked for and `git-lfs` is not installed             not retryable
  SubmoduleRefused          a submodule asks for something that we do not do             not retryable
  GitStopped                git was stopped before it ended, by its time limit or with us  retryable
  GitFailed                 git failed on this machine for a reason that we do not know    not retryable

MachineTrouble              it is this machine's fault, not the repository's
  GitTooOld                 git is missing, or older than what we need
  GitFailedHere             git says so: a full disk, no files left, no memory

A repository without a commit raises `agentsmith.domain.forge.EmptyRepository`, as the forge itself does.
Every message is fit for the ticket: it names the remedy where there is one, and holds no credential.
"""

from __future__ import annotations

from agentsmith.domain.errors import AgentSmithError, MachineTrouble


class GitError(AgentSmithError):
    """Something about git failed; `retryable` tells whether trying again later can help."""

    retryable = False


class GitTooOld(MachineTrouble):
    """There is no git that we can work with."""


class GitFailedHere(MachineTrouble):
    """Git could not go on, for want of something that this machine should have."""


class BranchRefused(GitError):
    """Git does not accept this name for a branch."""


class PlaceRefused(GitError):
    """The workspace is not where workspaces may be."""


class WorkspaceBusy(GitError):
    """Somebody else holds this ticket's workspace on this machine."""

    retryable = True


class RepositoryGone(GitError):
    """The server knows no such repository, or hides it from us."""


class RepositoryUnreachable(GitError):
    """The server does not answer, or not in time."""

    retryable = True


class NotUnderstood(RepositoryUnreachable):
    """Git could not use the server's answer, which may be different the next time."""


class CommitGone(GitError):
    """The server says that it has no such commit, or that none of its branches and tags leads to it."""


class CredentialRefused(GitError):
    """The server wants a credential, and refuses ours, or we have none."""


class BaseMissing(GitError):
    """The base branch does not exist on the server."""


class PushRefused(GitError):
    """The server declined the push by a rule of its own; the message has its words."""


class TooLarge(GitError):
    """The work is larger than the limits allow."""


class LfsMissing(GitError):
    """The repository needs git-lfs, which is not installed."""


class SubmoduleRefused(GitError):
    """A submodule points to a place that we do not fetch from."""


class GitStopped(GitError):
    """A command on this machine took too long, or was ended from outside."""

    retryable = True


class GitFailed(GitError):
    """Git failed for a reason that we do not know; the message has the end of its output."""

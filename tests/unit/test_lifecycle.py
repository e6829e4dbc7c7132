"""The table of moves, the picture of it, and the closed set of labels."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.lifecycle import EDGES, Edge, LabelSet, Owner, Status, edge, resolve

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
statuses = st.sampled_from(Status)
status_sets = st.frozensets(statuses)
prefixes = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)


# Edges.


def test_every_move_stands_once_in_the_table() -> None:
    moves = [(e.source, e.to, e.owner) for e in EDGES]
    assert len(moves) == len(set(moves))
    assert all(edge.why for edge in EDGES)


def test_what_is_not_in_the_table_is_not_legal() -> None:
    moves = {(e.source, e.to, e.owner) for e in EDGES}
    for source, to, owner in itertools.product(Status, (*Status, None), Owner):
        if (source, to, owner) in moves:
            assert edge(source, to, owner) in EDGES
        else:
            with pytest.raises(KeyError):
                edge(source, to, owner)


def test_every_status_is_reached_from_pending_and_left_again() -> None:
    reached, frontier = {Status.PENDING}, [Status.PENDING]
    while frontier:
        here = frontier.pop()
        nearby = {each.to for each in EDGES if each.source is here and each.to is not None}
        frontier += nearby - reached
        reached |= nearby
    assert reached == set(Status)
    assert {edge.source for edge in EDGES} == set(Status)


def test_only_a_person_leaves_a_final_status() -> None:
    assert {e.owner for e in EDGES if e.source.final} == {Owner.PERSON}
    assert {s for s in Status if s.final} == {Status.DONE, Status.FAILED}


def test_a_person_only_ever_starts_a_ticket_afresh() -> None:
    assert {e.to for e in EDGES if e.owner is Owner.PERSON} == {Status.PENDING}


def test_only_claim_starts_and_only_a_run_finishes_work() -> None:
    assert {(e.source, e.to) for e in EDGES if e.owner is Owner.CLAIM} == {
        (Status.PENDING, Status.ENQUEUED),
        (Status.PENDING, Status.WAITING),
    }
    assert {e.owner for e in EDGES if e.source is Status.PENDING} == {Owner.CLAIM}
    assert {e.owner for e in EDGES if e.to in (Status.DONE, Status.IN_PROGRESS)} == {Owner.RUN}


def test_our_label_is_taken_off_only_while_the_ticket_is_ours() -> None:
    assert {e.source for e in EDGES if e.to is None} == {Status.ENQUEUED, Status.IN_PROGRESS}


def drawn() -> list[Edge]:
    """The edges of the picture in the docs."""
    (picture,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names = {alias: name for name, alias in re.findall(r'state "([\w-]+)" as (\w+)', picture)}
    edges = []
    for source, to, said in re.findall(r"^ *(\S+) --> (\S+)(?: : (.*))?$", picture, flags=re.MULTILINE):
        if (source, to, said) == ("[*]", "pending", ""):
            continue  # where a ticket comes from is nobody's move
        owner, why = said.split(" — ")
        target = None if to == "[*]" else Status(names.get(to, to))
        edges.append(Edge(Status(names.get(source, source)), target, Owner(owner), why))
    return edges


def test_the_picture_in_the_docs_is_the_table() -> None:
    edges = drawn()
    assert set(edges) == EDGES
    assert len(edges) == len(EDGES), "one arrow each"


def test_the_page_explains_every_status_and_owner() -> None:
    page = PAGE.read_text()
    assert all(f"`{LabelSet().label(status)}`" in page for status in Status)
    assert all(f"**{owner.value}**" in page for owner in Owner)
    assert ", ".join(status.value for status in Status) in page, "the rank"


# Labels.


@given(prefixes, statuses)
def test_a_status_and_its_label(prefix: str, status: Status) -> None:
    labels = LabelSet(prefix)
    assert labels.label(status) == f"{prefix}:{status.value}"
    assert labels.status_of(labels.label(status)) is status


@given(statuses, st.lists(st.booleans(), min_size=25, max_size=25))
def test_case_and_blanks_around_make_no_difference(status: Status, upper: list[bool]) -> None:
    label = LabelSet().label(status)
    spelled = "".join(c.upper() if up else c for c, up in zip(label, upper, strict=False))
    assert len(spelled) == len(label)
    assert LabelSet().status_of(f" {spelled}\t") is status


@pytest.mark.parametrize(
    "label",
    [
        *("", ":", "pending", "agent-smith", "agent-smith:", "agent-smith:bug", "agent-smith:fix-bug"),
        *("agent-smith:done!", "agent-smith:done:x", "agent-smith : done", "agent-smith:in progress"),
        *("agent_smith:done", "x:agent-smith:done"),
    ],
)
def test_what_is_not_a_lifecycle_label_is_not_ours(label: str) -> None:
    assert LabelSet().status_of(label) is None


@given(st.text())
def test_any_other_text_is_not_ours(text: str) -> None:
    known = {f"agent-smith:{status.value}" for status in Status}
    assert (LabelSet().status_of(text) is not None) == (text.strip().casefold() in known)


def test_a_former_prefix_still_counts_and_is_never_added() -> None:
    labels = LabelSet("bot", former_prefixes=("agent-smith", "old"))
    assert labels.status_of("agent-smith:done") is labels.status_of("OLD:done") is Status.DONE
    assert labels.label(Status.DONE) == "bot:done"
    assert labels.spellings(Status.DONE) == ("bot:done", "agent-smith:done", "old:done")
    assert LabelSet("bot").status_of("agent-smith:done") is None


def test_the_lifecycle_labels_of_a_ticket_as_they_are_spelled() -> None:
    labels = LabelSet("bot", former_prefixes=("old",))
    shown = {"Bot:Done", "old:failed", "bug", "bot:bug", "bot"}
    assert labels.lifecycle(shown) == {"Bot:Done", "old:failed"}
    assert labels.statuses(shown) == {Status.DONE, Status.FAILED}
    assert labels.statuses({"bug"}) == frozenset()


# Repair.


@given(status_sets, st.none() | statuses, st.none() | statuses)
def test_intent_first_then_lease_then_rank(
    shown: frozenset[Status], intended: Status | None, leased: Status | None
) -> None:
    kept = resolve(shown, intended=intended, leased=leased)
    if not shown:
        assert kept is Status.PENDING
    elif intended in shown:
        assert kept is intended
    elif leased in shown:
        assert kept is leased
    else:
        assert kept in shown
        assert all(kept.rank >= other.rank for other in shown)


def test_the_rank_rises_along_the_lifecycle() -> None:
    assert [status.value for status in sorted(Status, key=lambda s: s.rank)] == [
        "pending",
        "enqueued",
        "in-progress",
        "waiting",
        "done",
        "failed",
    ]

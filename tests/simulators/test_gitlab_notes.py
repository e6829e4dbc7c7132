"""The GitLab simulator's comments: commands in them are carried out, in new ones and in edited ones."""

from __future__ import annotations

import httpx
import pytest

from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.simulators.gitlab.commands import extract
from tests.support import gitlab_simulator
from tests.support.gitlab_simulator import PROJECT

lab, running, api = gitlab_simulator.lab, gitlab_simulator.running, gitlab_simulator.api


async def test_write_read_edit_delete(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT)
    lab.comment(PROJECT, iid, "first")
    made = await api.post(f"/issues/{iid}/notes", json={"body": "second\r\nline  \n"})
    assert (made.status_code, made.json()["body"]) == (201, "second\nline")
    path = f"/issues/{iid}/notes/{made.json()['id']}"
    assert (await api.put(path, json={"body": "edited"})).json()["body"] == "edited"
    assert (await api.get(path)).json()["author"]["username"] == "smith-bot"
    assert (await api.get(f"/issues/{iid}")).json()["user_notes_count"] == 2
    listed = (await api.get(f"/issues/{iid}/notes")).json()
    assert [note["body"] for note in listed] == ["edited", "first"]
    ascending = await api.get(f"/issues/{iid}/notes", params={"sort": "asc", "activity_filter": "only_comments"})
    assert [note["body"] for note in ascending.json()] == ["first", "edited"]
    theirs = f"/issues/{iid}/notes/{listed[1]['id']}"
    assert (await api.put(theirs, json={"body": "forged"})).status_code == 403
    assert (await api.delete(path)).status_code == 204
    assert (await api.get(path)).status_code == 404
    lab.set_access(PROJECT, "smith-bot", "maintainer")
    assert (await api.put(theirs, json={"body": "moderated"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"body": ""}, 400),
        ({"body": 3}, 400),
        ({"body": "x" * 1_000_001}, 400),
        ({"body": "nul \0"}, 400),
        ({"body": "x" * 1_000_000}, 201),
    ],
    ids=["none", "empty", "number", "too long", "nul", "longest"],
)
async def test_what_is_no_comment(
    lab: GitLabSimulator, api: httpx.AsyncClient, body: dict[str, object], status: int
) -> None:
    lab.open_issue(PROJECT)
    assert (await api.post("/issues/1/notes", json=body)).status_code == status


async def test_commands_alone_make_no_comment(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["a"])
    answer = await api.post(f"/issues/{iid}/notes", json={"body": '/label ~b ~"c d"\n/close'})
    assert answer.status_code == 202
    assert answer.json()["commands_changes"] == {"label": '~b ~"c d"', "close": ""}
    assert lab.labels(PROJECT, iid) == ["a", "b", "c d"]
    assert lab.issue(PROJECT, iid).state == "closed"
    assert lab.comments(PROJECT, iid) == []


async def test_commands_in_an_edit_are_carried_out_too(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT, labels=["a"])
    made = await api.post(f"/issues/{iid}/notes", json={"body": "hello"})
    path = f"/issues/{iid}/notes/{made.json()['id']}"
    edited = await api.put(path, json={"body": "hello\n/unlabel ~a\nagain"})
    assert (edited.status_code, edited.json()["body"]) == (200, "hello\nagain")
    assert lab.labels(PROJECT, iid) == []
    assert (await api.put(path, json={"body": "/title New"})).status_code == 202
    assert lab.issue(PROJECT, iid).title == "New"
    assert (await api.get(path)).status_code == 404  # nothing was left of it


async def test_commands_need_the_right(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    lab.set_access(PROJECT, "smith-bot", "guest")
    iid = lab.open_issue(PROJECT)
    assert (await api.post(f"/issues/{iid}/notes", json={"body": "hm\n/close"})).status_code == 201
    assert lab.issue(PROJECT, iid).state == "opened"


@pytest.mark.parametrize(
    ("body", "text", "commands"),
    [
        ("/close", "", [("close", "")]),
        ("/CLOSE now", "", [("close", "now")]),
        ("\r/close", "", [("close", "")]),
        ("a\r/close", "a/close", []),
        (" /close", " /close", []),
        ("/closed", "/closed", []),
        ("/usr/bin", "/usr/bin", []),
        ("```\n/close\n```", "```\n/close\n```", []),
        ("```\nx\n```\n/close", "```\nx\n```", [("close", "")]),
        (">>>\n/close\n>>>", ">>>\n/close\n>>>", []),
        ("\u200b/close", "\u200b/close", []),
    ],
)
def test_what_is_a_command(body: str, text: str, commands: list[tuple[str, str]]) -> None:
    assert extract(body).text == text
    assert list(extract(body).commands) == commands


async def test_a_locked_discussion(lab: GitLabSimulator, api: httpx.AsyncClient) -> None:
    iid = lab.open_issue(PROJECT)
    lab.lock_issue(PROJECT, iid)
    assert (await api.post(f"/issues/{iid}/notes", json={"body": "hi"})).status_code == 201
    lab.set_access(PROJECT, "smith-bot", "none")
    assert (await api.post(f"/issues/{iid}/notes", json={"body": "hi"})).status_code == 403

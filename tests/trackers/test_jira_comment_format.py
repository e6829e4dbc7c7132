"""Texts on Jira: documents and wiki markup that show our text as it is, and read back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.report import folded
from agentsmith.trackers.jira import adf, wiki
from agentsmith.trackers.jira.comment_format import COMMENT_LIMIT, CUT, EMPTY, CommentFormat

CLOUD, DATA_CENTER = CommentFormat(LabelSet(), cloud=True), CommentFormat(LabelSet(), cloud=False)
MEMO = Memo("run-1", 7)
OPEN = "<details><summary>More</summary>"
TRICKY = (
    st.text(alphabet="ab `*_[](){}|\\-#!?~^+&;:/.\n<>h1bq\u200b\ud800\0\r\t")
    | st.text()
    | st.lists(st.sampled_from(["```", "````", "```sh", "", "x", OPEN, "</details>", "{panel}"])).map("\n".join)
)
FOLD = f"Failed.\n\n{folded('The last of its output', 'make: *** [all]')}\n\nRun `r`"


def nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """A node and all below it."""
    return [node, *(inner for child in node.get("content", []) for inner in nodes(child))]


@pytest.mark.parametrize("form", [CLOUD, DATA_CENTER], ids=["cloud", "data center"])
@given(text=TRICKY)
@example(text="```\n{noformat}\n```")
@example(text="```py\nx = 1\n```\nafter")
@example(text="```\nnever closed")
@example(text="[a](http://b.c/d_e-f) http://x.y/z. `c` **d**")
@example(text="h1. title\nbq. quote\n---- \\\\ {code} [~mona] !pic.png!")
@example(text="&#92;&amp;amp;\\")
@example(text=FOLD)
@example(text="<details><summary>never closed</summary>\n\n```\na\n```")
@example(text="<details><summary>empty</summary>\n\n</details>")
@example(text="```\n\n`````\na\n`````")
@example(text="<details><summary>a</summary>\n\n```\n{panel}\n</details>\n```\n\n</details>")
def test_a_text_comes_back_as_it_was_sent(form: CommentFormat, text: str) -> None:
    fitted = form.fit(text)
    body = json.loads(json.dumps(form.body(fitted, MEMO)))
    assert form.text(body["body"]) == fitted
    assert form.fit(fitted) == fitted
    (property_,) = body["properties"]
    assert form.is_ours(property_)
    assert form.memo(property_["value"]) == MEMO


@given(TRICKY)
def test_documents_are_what_jira_takes(text: str) -> None:
    document = adf.to_adf(CLOUD.fit(text))
    for node in nodes(document):
        if node["type"] == "text":
            assert node["text"]
            assert not any(ord(c) < 32 and c not in "\n\t" for c in node["text"])
    assert any(node["type"] == "text" for node in nodes(document))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{code}rm{code}", r"\{code\}rm\{code\}"),
        ("[~mona] !x.png!", r"\[\~mona\] \!x.png\!"),
        ("h1. big", "h1&#46; big"),
        ("a\\b & c", "a&#92;b &amp; c"),
        ("see https://x.example/a_b-c now", "see https://x.example/a_b-c now"),
        ("```sh\n*x* {noformat}\n```", "{noformat}\n*x* {\u200bnoformat}\n{noformat}"),
    ],
)
def test_nothing_in_a_text_is_markup_on_data_center(text: str, shown: str) -> None:
    assert wiki.to_wiki(text) == shown


def test_our_markdown_becomes_nodes_on_cloud() -> None:
    text = "**Done**: see [the log](https://x.example/1)\nran `make`\n\n```sh\n$ make\n```\n\nhttps://x.example/2."
    first, code, last = adf.to_adf(text)["content"]
    assert [node.get("marks", [{}])[0].get("type") for node in first["content"]] == [
        "strong",
        None,
        "link",
        None,
        None,
        "code",
    ]
    assert code == {"type": "codeBlock", "attrs": {"language": "sh"}, "content": [{"type": "text", "text": "$ make"}]}
    assert last["content"][0]["marks"][0]["attrs"]["href"] == "https://x.example/2"


def test_a_fold_is_one_that_people_open_on_cloud() -> None:
    first, fold, last = adf.to_adf(FOLD)["content"]
    assert fold == {
        "type": "expand",
        "attrs": {"title": "The last of its output"},
        "content": [
            {
                "type": "codeBlock",
                "attrs": {"language": "text"},
                "content": [{"type": "text", "text": "make: *** [all]"}],
            }
        ],
    }
    assert {first["type"], last["type"]} == {"paragraph"}


def test_a_fold_is_a_panel_on_data_center() -> None:
    assert wiki.to_wiki(FOLD).split("\n\n")[1] == (
        "{panel:title=The last of its output}\n{noformat}\nmake: *** [all]\n{noformat}\n{panel}"
    )


@pytest.mark.parametrize("output", ["```\nrm -rf\n```", "a\n````\n</details>\n{panel}\n{noformat}"])
def test_no_output_gets_out_of_its_fold(output: str) -> None:
    text = folded("The last of its output", output)
    (fold,) = adf.to_adf(text)["content"]
    assert [node["content"][0]["text"] for node in fold["content"]] == [output]
    assert wiki.to_wiki(text).count("\n{noformat}") == 2
    assert wiki.to_wiki(text).endswith("\n{noformat}\n{panel}")


def test_what_is_no_title_of_ours_is_no_fold() -> None:
    text = "<details><summary>{panel}|title=*x*</summary>\n\nbody\n\n</details>"
    assert not any(node["type"] == "expand" for node in nodes(adf.to_adf(text)))
    assert r"\{panel\}" in wiki.to_wiki(text)


def test_a_link_must_be_one_that_browsers_open_safely() -> None:
    text = "[click](javascript:alert(1)) [x](data:text/html,y)"
    assert not any("marks" in node for node in nodes(adf.to_adf(text)))


@pytest.mark.parametrize("form", [CLOUD, DATA_CENTER], ids=["cloud", "data center"])
@pytest.mark.parametrize(
    "text", ["x" * 40_000, "🧵" * 40_000, "*" * 40_000, "a\n" * 40_000, "```\n" + "log\n" * 20_000]
)
def test_a_long_text_is_cut_so_that_text_and_document_fit(form: CommentFormat, text: str) -> None:
    fitted = form.fit(text)
    body = form.body(fitted, MEMO)["body"]
    packed = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert len(packed.encode("utf-16-le")) // 2 <= COMMENT_LIMIT
    assert fitted.endswith(CUT.strip())
    assert len(packed) > 10_000 or "🧵" in text
    assert form.fit(fitted) == fitted


def test_a_log_that_is_cut_stays_a_log() -> None:
    fitted = CLOUD.fit("Failed:\n```\n" + "line of the log\n" * 4_000 + "```")
    assert [node["type"] for node in adf.to_adf(fitted)["content"]] == ["paragraph", "codeBlock", "paragraph"]


def test_a_fold_that_is_cut_stays_a_fold() -> None:
    fitted = CLOUD.fit(folded("The last of its output", "line of the log\n" * 4_000))
    assert [node["type"] for node in adf.to_adf(fitted)["content"]] == ["expand", "paragraph"]


def test_an_empty_text_is_still_a_comment() -> None:
    assert CLOUD.fit(" \n\0\n") == DATA_CENTER.fit("") == EMPTY


def test_what_people_write_is_read_as_text() -> None:
    def text(words: str, *marks: dict[str, Any]) -> dict[str, Any]:
        return {"type": "text", "text": words, **({"marks": list(marks)} if marks else {})}

    def paragraph(*content: dict[str, Any]) -> dict[str, Any]:
        return {"type": "paragraph", "content": list(content)}

    def item(*content: dict[str, Any]) -> dict[str, Any]:
        return {"type": "listItem", "content": list(content)}

    document = {
        "type": "doc",
        "version": 1,
        "content": [
            {"type": "heading", "attrs": {"level": 2}, "content": [text("Title")]},
            {
                "type": "bulletList",
                "content": [
                    item(paragraph(text("one"))),
                    item(
                        paragraph(text("two")),
                        {"type": "orderedList", "content": [item(paragraph(text("inner")))]},
                    ),
                ],
            },
            {"type": "blockquote", "content": [paragraph(text("a"), {"type": "hardBreak"}, text("b"))]},
            {"type": "rule"},
            {
                "type": "table",
                "content": [
                    {
                        "type": "tableRow",
                        "content": [
                            {"type": "tableHeader", "content": [paragraph(text("h"))]},
                            {"type": "tableCell", "content": [paragraph(text("c"))]},
                        ],
                    }
                ],
            },
            {"type": "taskList", "content": [{"type": "taskItem", "attrs": {"state": "DONE"}, "content": [text("t")]}]},
            {"type": "panel", "attrs": {"panelType": "info"}, "content": [paragraph(text("in a panel"))]},
            paragraph(
                {"type": "mention", "attrs": {"id": "1", "text": "@mona"}},
                text(" "),
                {"type": "emoji", "attrs": {"shortName": ":ok:", "text": "👌"}},
                {"type": "inlineCard", "attrs": {"url": "https://x.example"}},
                {"type": "date", "attrs": {"timestamp": "1700000000000"}},
                text("k", {"type": "code"}, {"type": "link", "attrs": {"href": "https://y.example"}}),
            ),
            {"type": "surprise", "content": [paragraph(text("inside"))]},
        ],
    }
    assert adf.to_text(document) == (
        "## Title\n\n- one\n- two\n  1. inner\n\n> a\n> b\n\n---\n\nh | c\n\n[x] t\n\nin a panel\n\n"
        "@mona 👌https://x.example2023-11-14[`k`](https://y.example)\n\ninside"
    )


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "content", "text", "attrs", "marks", "level", "url"]), inner, max_size=4
            )
        ),
    )
)
def test_any_document_is_read_somehow(node: Any) -> None:
    assert isinstance(adf.to_text(node), str)


def test_a_document_of_endless_depth_is_cut_off() -> None:
    node: dict[str, Any] = {"type": "paragraph", "content": [{"type": "text", "text": "deep"}]}
    for _ in range(5_000):
        node = {"type": "panel", "content": [node]}
    assert adf.to_text(node) == ""

"""Exports of ChatGPT's data: the tree of nodes, its current branch, and the pictures beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.adapters.importers.door import json_lines
from stenolog.contrib import chatgpt
from stenolog.contrib.chatgpt import Media
from stenolog.errors import UnknownFormatError
from stenolog.parts import ImagePart, ProviderPart, ReasoningPart
from tests.transcripts.given import Import, Json

pytestmark = pytest.mark.usefixtures("sound")
MODEL = {"model_slug": "gpt-5", "finish_details": {"type": "stop"}}


def node(id: str, parent: str | None, role: str = "", time: float = 0, **fields: Any) -> Json:
    """Return a node; `content` is its text, or a content whole."""
    content = fields.pop("content", "")
    whole = content if isinstance(content, dict) else {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": fields.pop("name", None), "metadata": {}}
    given = {
        "id": id,
        "author": author,
        "create_time": 1_767_000_000 + time,
        "content": whole,
        "metadata": {},
    }
    message = {**given, "recipient": "all", "status": "finished_successfully", "weight": 1, **fields}
    return {"id": id, "parent": parent, "children": [], "message": message if role else None}


def export(*nodes: Any, current: str = "", **fields: Any) -> bytes:
    mapping = {str(each.get("id")) if isinstance(each, dict) else "odd": each for each in nodes}
    about = {"title": "Rye", "create_time": 1_767_000_000.5, "conversation_id": "6543-c", **fields}
    return json.dumps(
        [{**about, "mapping": mapping, "current_node": current or next(reversed(mapping))}]
    ).encode()


def write_export(folder: Path, nodes: list[Any]) -> Path:
    (path := folder / "conversations.json").write_bytes(export(*nodes))
    return path


THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "Looking", "content": "I look."}]}
PICTURE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Abc123", "width": 1}
SHOWN = {"content_type": "multimodal_text", "parts": [PICTURE, "Which loaf is this?"]}
PROFILE = {
    "content_type": "user_editable_context",
    "user_profile": "A baker.",
    "user_instructions": "Be brief.",
}
NODES = [
    node("root", None),
    node("s1", "root", "system"),
    node("p1", "s1", "user", 1, content=PROFILE),
    node("u1", "p1", "user", 2, content=SHOWN),
    node("t1", "u1", "assistant", 3, content=THOUGHTS, metadata=MODEL),
    node("c1", "t1", "assistant", 4, content={"content_type": "code", "text": "ls()"}, recipient="python"),
    node(
        "r1", "c1", "tool", 5, name="sandbox", content={"content_type": "execution_output", "text": "rye.png"}
    ),
    node("a1", "r1", "assistant", 6, content="Rye.", metadata=MODEL),
    node("a2", "r1", "assistant", 7, content="Wheat.", metadata=MODEL),
    node("u2", "a1", "user", 8, content="Sure?"),
    node("w1", "u2", "assistant", 9, content='{"q":"rye"}', recipient="web.run"),
    node("e1", "w1", "tool", 10, name="web", content={"content_type": "system_error", "text": "offline"}),
    node("a3", "e1", "assistant", 11, content="Yes.", metadata=MODEL),
]


def shown(into: Import) -> list[str]:
    body = json.dumps(into.conversation.request("chatgpt").body)
    return [words for words in ("Rye.", "Wheat.", "Sure?", "Yes.", "Bye.") if words in body]


def test_messages_thoughts_calls_results_and_errors_of_the_current_branch(into: Import) -> None:
    into.file(export(*NODES), "conversations.json")
    events = into.said
    people = [event for event in events if isinstance(event, UserMessage)]
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    results = [event for event in events if isinstance(event, ToolResult)]

    assert (into.conversation.name, into.conversation.settings().title) == ("6543-c", "Rye")
    assert [(each.author_kind, each.text) for each in people] == [
        ("system", "A baker.\nBe brief."),
        ("person", "Which loaf is this?"),
        ("person", "Sure?"),
    ]
    assert [p.text for each in answers for p in each.parts if isinstance(p, ReasoningPart)] == [
        "Looking\nI look."
    ]
    assert [(c.name, c.arguments) for each in answers for c in each.tool_calls] == [
        ("python", '{"input":"ls()"}'),
        ("web.run", '{"q":"rye"}'),
    ]
    assert [(each.text, each.is_error, each.call is not None) for each in results] == [
        ("rye.png", False, True),
        ("offline", True, True),
    ]
    assert answers[-1].model == "gpt-5"
    assert into.entries[-1].time.year == 2025


def test_the_current_branch_is_in_context_and_the_others_are_kept_as_forks(into: Import) -> None:
    into.file(export(*NODES), "conversations.json")
    (found,) = into.report.conversations

    assert shown(into) == ["Rye.", "Sure?", "Yes."]
    assert len(found.forks) == 2
    body = json.dumps(into.log[found.forks[-1]].request("chatgpt").body)
    assert "Wheat." in body


@pytest.mark.parametrize(
    ("nodes", "current", "visible"),
    [
        (NODES, "a2", ["Wheat."]),
        ([*NODES, node("u3", "a2", "user", 20, content="Bye.")], "u3", ["Wheat.", "Bye."]),
        ([*NODES, node("u3", "a3", "user", 20, content="Bye.")], "u3", ["Rye.", "Sure?", "Yes.", "Bye."]),
        ([*NODES, node("u3", "a2", "user", 20, content="Bye.")], "a3", ["Rye.", "Sure?", "Yes."]),
    ],
    ids=["went back", "went on there", "went on", "and back again"],
)
@pytest.mark.parametrize("before", ["a3", "a2", "a1"])
def test_a_later_export_shows_its_own_branch_whatever_was_current(
    into: Import, nodes: list[Json], current: str, visible: list[str], before: str
) -> None:
    into.file(export(*NODES, current=before), "one.json")
    into.file(export(*nodes, current=current), "two.json")
    again = into.file(export(*nodes, current=current), "three.json").report

    assert shown(into) == visible
    assert [one.appended for one in again.conversations] == [0]
    assert {name.partition("~")[0] for name in into.log.names()} == {"6543-c"}


def test_a_picture_beside_the_export_is_kept_and_one_that_is_missing_is_named(
    into: Import, tmp_path: Path
) -> None:
    missing = into.file(export(*NODES), "one.json").said
    (tmp_path / "file-Abc123-loaf.png").write_bytes(b"png")
    nodes = [
        {**each, "id": f"x{each['id']}", "parent": each["parent"] and f"x{each['parent']}"} for each in NODES
    ]
    beside = into.file(export(*nodes, conversation_id="other"), "two.json").said

    parts = [part for events in (missing, beside) for event in events for part in getattr(event, "parts", ())]
    assert [type(part) for part in parts if isinstance(part, ImagePart | ProviderPart)] == [
        ProviderPart,
        ImagePart,
    ]
    (picture,) = [part for part in parts if isinstance(part, ImagePart)]
    assert into.log.blobs[picture.blob] == b"png"


def test_pictures_are_found_in_one_look_at_their_folders_and_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    scandir = os.scandir

    def counted(path: Any = ".") -> Any:
        looks.append(os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    (secret := tmp_path / "secret").write_text("key")
    (made := tmp_path / "export" / "dalle-generations").mkdir(parents=True)
    (made / "file-Made1-loaf.webp").write_bytes(b"made")
    (made.parent / "file-Link1.png").symlink_to(secret)
    blobs: dict[str, bytes] = {}
    media = Media(write_export(made.parent, NODES))
    kept = [media.keep(f"file-service://file-{id}", blobs) for id in ["Made1", "Link1", "None1"] * 9]

    assert [part is not None for part in kept] == [True, False, False] * 9
    assert [*blobs.values()] == [b"made"]
    assert len(looks) <= 4


def test_each_conversation_of_an_export_is_one(into: Import) -> None:
    one, other = (json.loads(export(*NODES, conversation_id=id))[0] for id in ("a", "b"))
    into.file(json.dumps([one, other, {"title": "x"}]).encode(), "conversations.json")

    assert {"a", "b"} <= {found.name for found in into.report.conversations}


def test_an_export_larger_than_a_document_may_be_is_read_item_by_item(
    into: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [json.loads(export(*NODES, conversation_id=f"c{n}"))[0] for n in range(5)]
    content = json.dumps(
        [*found, {**found[0], "title": "\U0001f35e", "conversation_id": "c5"}], indent=1
    ).encode()
    monkeypatch.setattr(json_lines, "LONGEST_DOCUMENT", len(content) // 2)
    monkeypatch.setattr(json_lines, "_CHUNK", 1_001)
    into.file(content, "conversations.json")
    whole, cut = into.report, into.file(content[:-200], "cut.json").report

    assert [one.name for one in whole.conversations] == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert whole.skipped == []
    assert into.log["c5"].settings().title == "\U0001f35e"
    assert [one.name for one in cut.conversations] == ["c0", "c1", "c2", "c3", "c4"]
    assert [(skip.line, skip.unit) for skip in cut.skipped] == [(6, "item")]


def test_after_many_branches_only_the_current_one_is_followed(
    into: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chatgpt, "MOST_BRANCHES", 4)
    others = [node(f"x{n}", "u2", "assistant", 20 + n, content=f"no {n}") for n in range(9)]
    into.file(export(*NODES, *others, current="a3"), "conversations.json")
    (found,) = into.report.conversations

    assert len(found.forks) == 5
    assert found.ignored["missing: forks of further branches"] == 7  # a warning, as all that is missing
    assert shown(into) == ["Rye.", "Sure?", "Yes."]
    assert "no 8" not in json.dumps(into.conversation.request("chatgpt").body)


def test_nodes_in_a_circle_are_counted(into: Import) -> None:
    circle = [node("x", "y", "user", 1, content="a"), node("y", "x", "user", 2, content="b")]
    into.file(export(*NODES, *circle, current="a3"), "conversations.json")

    assert into.report.conversations[0].ignored["node in a circle"] == 2
    assert shown(into) == ["Rye.", "Sure?", "Yes."]


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (
            [{"id": "x", "conversation_id": "c", "rating": "thumbsUp"}],
            "ratings in an export of ChatGPT's data",
        ),
        ([{"id": "x", "conversation_id": "c", "is_anonymous": True}], "links in an export of ChatGPT's data"),
    ],
)
def test_other_files_of_an_export_are_refused_by_name(into: Import, document: Any, title: str) -> None:
    with pytest.raises(UnknownFormatError, match=title):
        into.file(json.dumps(document).encode(), "feedback.json")

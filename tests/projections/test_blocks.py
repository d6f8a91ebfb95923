"""Blocks of an entry: what a person reads of its parts, of a call and of a result; nothing of it is lost."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, Entry, ToolCall
from stenolog.parts import ImagePart, ProviderPart, ReasoningPart, TextPart
from stenolog.projections.views.blocks import Block, CallBlock, blocks, called, line_diff, output
from stenolog.projections.views.editors import EDITORS, editor_link
from stenolog.projections.views.edits import changed_files, edits
from tests.strategies import logs

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n one\n-two\n+three\n*** End Patch"


def call(name: str = "tool", **arguments: Any) -> ToolCall:
    return ToolCall(id="c", name=name, arguments=json.dumps(arguments))


@given(logs())
def test_every_text_of_an_entry_is_in_a_block_and_every_call_has_one(log: list[Entry]) -> None:
    for entry in log:
        parts = getattr(entry.event, "parts", ())
        found = [*blocks(parts)]
        texts = [block.text for block in found if isinstance(block, Block)]
        calls = [block for block in found if isinstance(block, CallBlock)]
        for part in parts:
            if isinstance(part, TextPart | ReasoningPart):
                assert part.text in texts
        own = [part for part in parts if isinstance(part, ToolCall)]
        assert [each.call for each in calls if each.act is None] == own
        assert [each.nth for each in calls if each.act is None] == [*range(len(own))]


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_the_lines_of_a_difference_are_both_texts(old: str, new: str) -> None:
    lines = line_diff(old, new)

    assert "\n".join(line.text for line in lines if line.sign != "+") == old
    assert "\n".join(line.text for line in lines if line.sign != "-") == new


def counted(work: Callable[[], object]) -> int:
    """Return the number of calls of functions that some work takes."""
    number = 0

    def called(*_: object) -> None:
        nonlocal number
        number += 1

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return number


def edit(lines: int) -> dict[str, str]:
    return {"old_string": "x\n" * lines, "new_string": "x\ny\n" * lines}


@pytest.mark.parametrize(
    "raw",
    [
        r'{"type":"command_execution","command":"\ud800"}',
        r'{"type":"tool_use","name":"\uDC00","id":"1","input":{"\udfff":["\ud83d\ude00"]}}',
        '{"type":"tool_use","name":"x","id":"1","input":%s}' % ("[" * 900 + "]" * 900),
        '{"type":"tool_use","name":"x","id":"1","input":%s}' % ("[" * 300 + "]" * 300),
        "[" * 100_000,
    ],
)
def test_whatever_a_program_wrote_of_an_act_can_be_shown(raw: str) -> None:
    for block in blocks([ProviderPart(provider="command-line", raw=raw)]):
        str(block).encode()


def act(id: str) -> list[ProviderPart]:
    things: list[dict[str, object]] = [
        {"type": "tool_use", "id": id, "name": "shell", "input": {"command": id}},
        {"type": "tool_result", "tool_use_id": id, "content": f"done {id}"},
    ]
    return [ProviderPart(provider="command-line", raw=json.dumps(thing)) for thing in things]


@pytest.mark.parametrize(
    "work",
    [
        lambda size: called(call(path="a.py", **edit(size))),
        lambda size: list(blocks([part for nth in range(size) for part in act(str(nth))])),
    ],
    ids=["lines", "acts"],
)
def test_twice_as_much_takes_at_most_some_three_times_the_work(work: Callable[[int], object]) -> None:
    assert counted(lambda: work(160)) < 3 * counted(lambda: work(80))


def test_after_many_lines_of_edits_no_more_are_compared() -> None:
    edits = [{"old_string": "a\nb\nc", "new_string": "x\nb\ny"}] * 200
    _, found = called(call(path="a.py", edits=edits))

    assert "".join(line.sign for line in found[0].lines) == "-+ -+"
    assert "".join(line.sign for line in found[-1].lines) == "---+++"


def test_an_act_has_the_result_with_its_id() -> None:
    one, two = act("1"), act("2")
    found = blocks([one[0], two[0], two[1], TextPart("Done."), one[1]])

    assert [each.act.output if isinstance(each, CallBlock) and each.act else each.text for each in found] == [  # type: ignore[union-attr]
        "done 1",
        "done 2",
        "Done.",
    ]


@pytest.mark.parametrize(
    ("arguments", "gist", "kinds"),
    [
        ({"file_path": "a.py", "old_string": "x", "new_string": "y"}, "a.py", ["diff"]),
        ({"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}] * 2}, "a.py", ["diff", "diff"]),
        ({"input": PATCH}, "", ["diff"]),
        ({"command": "pytest -q", "description": "Run the tests"}, "pytest -q", []),
        ({"cmd": ["ls", "-l"]}, "ls -l", []),
        ({"command": "cat <<E\nx\nE"}, "cat <<E", ["command"]),
        ({"path": "a.py", "content": "x = 1"}, "a.py", ["code"]),
        ({"query": "parser"}, "parser", []),
        ({"query": "parser", "limit": 3}, "parser", ["plain"]),
        ({"query": "parser", "in": ["a.py"]}, "parser", ["data"]),
        ({}, "", []),
    ],
)
def test_a_call_is_shown_by_what_its_arguments_are(
    arguments: dict[str, Any], gist: str, kinds: list[str]
) -> None:
    said, shown = called(call(**arguments))

    assert (said, [block.kind for block in shown]) == (gist, kinds)


def test_a_patch_keeps_its_lines_and_their_signs() -> None:
    _, (block,) = called(ToolCall(id="c", name="apply_patch", form="custom", arguments=PATCH))

    assert [line.sign for line in block.lines] == ["@", "@", "@", " ", "-", "+", "@"]
    assert block.lines[3].text == "one"


@pytest.mark.parametrize(
    ("text", "arguments", "kind"),
    [
        ("\x1b[31mred\x1b[0m", {"command": "ls"}, "terminal"),
        ("diff --git a/x b/x\n-a\n+b", {"command": "git diff"}, "diff"),
        ('{"a": [1]}', {"query": "x"}, "data"),
        ('{"a": ', {"query": "x"}, "plain"),
        ("import os", {"path": "a.py"}, "code"),
        ("Done.", {"path": "a.py", "content": "x"}, "plain"),
    ],
)
def test_a_result_is_shown_by_its_text_and_its_call(text: str, arguments: dict[str, Any], kind: str) -> None:
    (block,) = output([TextPart(text)], call(**arguments))

    assert block.kind == kind
    assert "\x1b" not in block.text


def test_a_picture_names_its_part_and_not_its_bytes() -> None:
    (block,) = output([ImagePart(url="data:image/png;base64,AAAA")])

    assert block == Block("picture", "", "image/png", part=0)


def test_edits_sum_by_file_whatever_form_their_calls_have() -> None:
    two = (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+three"
    )
    with stenolog.open(":memory:") as log:
        parts = [
            call(file_path="a.py", old_string="one\ntwo", new_string="one\nthree\nfour"),
            call(path="b.py", content="x\ny\n"),
            ToolCall(id="p", name="apply_patch", form="custom", arguments=PATCH),
            call(patch=two),
            call(command="rm a.py"),
        ]
        entry = log["x"].append(AssistantMessage(agent="a", parts=parts))
        found = changed_files(edits(entry))

    assert [(each.path, each.added, each.removed) for each in found.files] == [
        ("a.py", 4, 3),
        ("b.py", 2, 0),
        ("new.py", 1, 0),
    ]
    assert found.in_words == "3 changed, +7 -3"


@given(logs())
def test_any_log_has_the_sum_of_its_files(log: list[Entry]) -> None:
    found = [each for entry in log for each in edits(entry)]
    files = changed_files(found)

    assert (files.added, files.removed) == (sum(e.added for e in found), sum(e.removed for e in found))
    assert {position for file in files.files for position in file.positions} == {e.position for e in found}


# Links that open the file of a call in an editor.


def link(editor: str = "vscode", folder: str = "/home/user/bakery", **arguments: Any) -> str:
    return editor_link(editor, json.dumps(arguments), folder)


@pytest.mark.parametrize(
    ("editor", "address"),
    [
        ("vscode", "vscode://file/home/user/a%20b.py:12"),
        ("cursor", "cursor://file/home/user/a%20b.py:12"),
        ("zed", "zed://file/home/user/a%20b.py:12"),
        ("idea", "idea://open?file=/home/user/a%20b.py&line=12"),
        ("", ""),
    ],
)
def test_each_editor_opens_a_file_by_its_own_address(editor: str, address: str) -> None:
    assert link(editor, file_path="/home/user/a b.py", offset=12) == address


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ({"path": "oven.py", "view_range": [7, 9]}, "/home/user/bakery/oven.py:7"),
        ({"notebook_path": "./a.ipynb", "line": "7"}, "/home/user/bakery/./a.ipynb:1"),
        ({"filename": "D:\\bakery\\a.py"}, "/D:/bakery/a.py:1"),
        ({"path": "/x", "line": True}, "/x:1"),
        ({"path": "/x", "line": [-1]}, "/x:1"),
        ({"path": "/x?a=1&b#c"}, "/x%3Fa%3D1%26b%23c:1"),
    ],
)
def test_a_path_is_read_from_where_the_session_worked_and_escaped(arguments: Any, end: str) -> None:
    assert link(**arguments) == f"vscode://file{end}"


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example/share", "\\\\evil.example\\share", "/a/../../etc/passwd", "/a/..", ".", "/a/", "/"),
        *("/a\nb", "/a\x00b", "/a\x1b]8;;b", "/a\\b", "/\ud800", "", ["a", "b"], None, 7),
    ],
)
def test_what_is_no_plain_path_of_a_file_has_no_link(path: Any) -> None:
    assert link(path=path) == ""
    assert link(folder="", path="oven.py") == ""
    assert link(folder="relative", path="oven.py") == ""


@given(st.sampled_from([*EDITORS]), st.text(), st.text())
def test_no_path_makes_another_address_than_the_editors_own(editor: str, path: str, folder: str) -> None:
    address = link(editor, folder, path=path)

    assert not address or re.fullmatch(r"(vscode|cursor|zed|idea):/[\w%:/.?=&~-]+", address, re.ASCII)
    assert not address or address.startswith(EDITORS[editor].partition("{")[0] + "/")

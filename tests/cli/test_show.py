"""`show`: an entry for a reader, its words before its proofs, and where to go on from it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries.outputs import store_large
from stenolog.apps.cli.commands.see.outputs import short_aliases
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
SIGNATURE = "SIG" * 100
THOUGHT = ReasoningPart(text="First look,\nthen mend.", provider="anthropic", signature=SIGNATURE)


@pytest.fixture
def talk(cli: Cli, tmp_path: Path) -> Cli:
    """Make a talk with two calls in one answer, an id that comes again, and a call without a result."""
    two: list[AssistantPart] = [THOUGHT, *(ToolCall(id=id, name="look", arguments="{}") for id in "ab")]
    again = ToolCall(id="a", name="look", arguments="{}")
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([
            UserMessage(text="Mend it.", to=["coder"]),  # 2
            AssistantMessage(agent="coder", parts=two),  # 3
            ToolResult(call_id="b", text="from b"),  # 4
            ToolResult(call_id="a", text="from a"),  # 5
            AssistantMessage(agent="coder", parts=[TextPart(text="Again."), again]),  # 6
            ToolResult(call_id="a", text="from a again"),  # 7
            AssistantMessage(agent="coder", tool_calls=[again]),  # 8
        ])  # fmt: skip
    return cli


def test_show_has_a_thoughts_words_before_a_short_note_on_its_signature(talk: Cli) -> None:
    shown = talk("show", "x", "3").out

    assert (
        "reasoning\nFirst look,\nthen mend.\nsigned by anthropic (300 characters; --json has them)\n" in shown
    )
    assert SIGNATURE not in shown
    assert SIGNATURE in talk("show", "x", "3", "--json").out


def test_show_has_the_ids_and_digests_below_the_words(talk: Cli) -> None:
    shown = talk("show", "x", "2").out

    assert shown.splitlines()[1] == "to  coder"
    assert shown.index("Mend it.") < shown.index("record\n") < shown.index("digest")


def test_a_call_names_the_position_of_its_result_and_a_result_that_of_its_call(talk: Cli) -> None:
    both = [row for row in talk("show", "x", "3").out.splitlines() if "result" in row]

    assert both == ["result at 5", "result at 4"]
    assert "\ncall at 3/2\n" in talk("show", "x", "4").out
    assert "\ncall at 3\n" in talk("show", "x", "5").out
    assert "\nresult at 7\n" in talk("show", "x", "6").out
    assert "\ncall at 6\n" in talk("show", "x", "7").out
    assert "\nno result yet\n" in talk("show", "x", "8").out


def test_an_erased_entry_says_why_and_when_it_was_erased_and_is_never_unknown(demo: Cli) -> None:
    assert demo("erase", "demo", "4", "--yes", "--reason", "a password").status == 0
    told = "erased (a password, 20"

    for command in ("log", "tail", "timeline", "show", "explain"):
        more = {"show": ["4"], "explain": ["4"], "tail": ["-n", "50", "--timeout", "0.01"]}.get(command, [])
        shown = demo(command, "demo", *more).out
        assert told in shown, command
        assert "unknown" not in shown, command
    called = demo("explain", "demo", "4").out
    assert f"entry 4 is {told}" in called
    assert "release does not know" not in called
    for steps in (("state", "demo", "--steps"), ("check", "replay", "demo", "-v")):
        shown = demo(*steps).out
        assert "erased" in shown
        assert "unknown" not in shown


def program_part(provider: str, **fields: object) -> ProviderPart:
    return ProviderPart(provider=provider, raw=json.dumps(fields))


def test_an_act_of_a_program_is_shown_as_a_call_with_its_result(cli: Cli, tmp_path: Path) -> None:
    wrote = {"file_path": "a.py", "content": "one\ntwo"}
    parts: list[AssistantPart] = [
        program_part("claude-code", type="tool_use", id="t1", name="Write", input=wrote),
        TextPart(text="Now I run it."),
        program_part("claude-code", type="tool_use", id="t2", name="Bash", input={"command": "ls"}),
        program_part("claude-code", type="tool_result", tool_use_id="t1", content="written"),
        program_part("codex", type="command_execution", command="pwd", exit_code=1, aggregated_output="no"),
        program_part("codex", type="todo_list", items=["mend it"]),
        program_part("claude-code", type="tool_result", tool_use_id="t0", content="late"),
    ]
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", parts=parts))

    shown = cli("show", "x").out.partition("record\n")[0]

    assert [row for row in shown.splitlines()[2:] if row] == [
        "act",
        "id    t1",
        "name  Write",
        "arguments",
        "  file_path  a.py",
        "  content    one",
        "             two",
        "result: ok",
        "written",
        "text",
        "Now I run it.",
        "act",
        "id    t2",
        "name  Bash",
        "arguments",
        "  command  ls",
        "no result",
        "act",
        "name  command",
        "arguments",
        "  command  pwd",
        "result: failed",
        "no",
        "opaque",
        "provider  codex",
        "type      todo_list",
        "items     mend it",
        "opaque",
        "provider     claude-code",
        "type         tool_result",
        "tool_use_id  t0",
        "content      late",
    ]


# The file of a call as a link of a terminal, which opens it in an editor.


LINK = "\x1b]8;;vscode://file/home/user/bakery/oven.py:3\x1b\\"
SIGNS = ("STENOLOG_EDITOR", "CURSOR_TRACE_ID", "TERM_PROGRAM", "ZED_TERM", "TERMINAL_EMULATOR")


@pytest.fixture
def edited(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Make a session in a folder, with a call and an act that name a file in it."""
    for name in SIGNS:
        monkeypatch.delenv(name, raising=False)
    arguments = {"file_path": "oven.py", "offset": 3}
    call = ToolCall(id="1", name="Read", arguments=json.dumps(arguments))
    act = program_part("claude-code", type="tool_use", id="t1", name="Read", input=arguments)
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(ModeSwitch(meta={"codex": {"cwd": "/home/user/bakery"}}))
        log["x"].append(AssistantMessage(agent="coder", parts=[call, act]))
    return cli


@pytest.mark.parametrize("command", ["show", "timeline"])
def test_the_file_of_a_call_is_a_link_if_an_editor_is_known_and_there_are_colours(
    edited: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert "\x1b]8" not in edited(command, "x", "--color", "always").out
    monkeypatch.setenv("STENOLOG_EDITOR", "vscode")
    plain, shown = edited(command, "x").out, edited(command, "x", "--color", "always").out

    assert shown.count(LINK) == 2
    assert "\x1b" not in plain
    assert re.sub(r"\x1b(\]8;;[^\x1b]*\x1b\\|\[[\d;]*m)", "", shown) == plain


@pytest.mark.parametrize(
    ("signs", "scheme"),
    [
        ({"TERM_PROGRAM": "vscode"}, "vscode://file/"),
        ({"TERM_PROGRAM": "vscode", "CURSOR_TRACE_ID": "7f"}, "cursor://file/"),
        ({"ZED_TERM": "true"}, "zed://file/"),
        ({"TERMINAL_EMULATOR": "JetBrains-JediTerm"}, "idea://open?file=/"),
        ({"TERM_PROGRAM": "vscode", "STENOLOG_EDITOR": "zed"}, "zed://file/"),
        ({"TERM_PROGRAM": "vscode", "STENOLOG_EDITOR": "none"}, ""),
        ({"TERM_PROGRAM": "iTerm.app"}, ""),
    ],
)
def test_the_editor_is_that_of_the_environment_else_the_one_whose_terminal_it_is(
    edited: Cli, monkeypatch: pytest.MonkeyPatch, signs: dict[str, str], scheme: str
) -> None:
    for name, value in signs.items():
        monkeypatch.setenv(name, value)
    addresses = re.findall(r"\x1b\]8;;([^\x1b]+)", edited("timeline", "x", "--color", "always").out)

    assert [address.startswith(scheme) for address in addresses] == [True, True] * bool(scheme)


def test_an_unknown_editor_is_refused(edited: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENOLOG_EDITOR", "ed")
    told = edited("timeline", "x")

    assert told.status == 2
    assert "STENOLOG_EDITOR: expected one of vscode, cursor, zed, idea, none, found 'ed'" in told.err


# `outputs`: what tools gave back, listed, read in pieces, and written as files.


FOURTH = "@state/logs/tool-results/demo-4.json"
EIGHTH = "@state/logs/tool-results/demo-8.json"


def test_outputs_lists_the_aliases_with_entry_and_size_and_how_they_begin(demo: Callable[..., Any]) -> None:
    listed = demo("outputs", "demo", "--json").data
    failed, passed = (output.pop("begins") for output in listed["outputs"])

    assert listed == {
        "conversation": "demo",
        "outputs": [
            {"alias": FOURTH, "position": 4, "name": "shell", "bytes": 42},
            {"alias": EIGHTH, "position": 8, "name": "shell", "bytes": 47},
        ],
        "directory": None,
        "written": [],
    }
    assert (failed, passed[-9:]) == ("FAILED test_dates: 23:00 != 00:00\n1 failed", "12 passed")


def test_at_a_terminal_the_list_has_short_aliases_which_the_command_takes(demo: Callable[..., Any]) -> None:
    row = demo("outputs", "demo").out.splitlines()[2]

    assert row.split()[:4] == ["4", "42", "shell", "@demo-4"]
    assert demo("outputs", "demo", "@demo-4").out == demo("outputs", "demo", FOURTH).out
    assert demo("outputs", "demo", "@demo").status == 2
    assert "the beginning of 2 aliases" in demo("outputs", "demo", "@demo").err


def test_in_a_pipe_the_list_has_whole_aliases(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")

    assert demo("outputs", "demo").out.splitlines()[1].split() == ["4", "42", "shell", FOURTH]


def test_short_aliases_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    ids = ("0199a213-aaaa", "0199a213-bbbb")
    aliases = [*(f"@state/logs/tool-results/{id}.json" for id in ids), "@state/artifacts/plan"]

    assert [*short_aliases(aliases).values()] == ["@0199a213-a", "@0199a213-b", "@state/artifacts/plan"]


def test_an_output_without_a_name_has_that_of_the_tool_that_was_called(cli: Any, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        call = ToolCall(id="c1", name="shell")
        log["x"].extend([AssistantMessage(agent="a", tool_calls=[call]), ToolResult(call_id="c1", text="ok")])

    assert cli("outputs", "x", "--json").data["outputs"][0]["name"] == "shell"


def test_output_shows_the_whole_or_a_piece_and_where_to_go_on(demo: Callable[..., Any]) -> None:
    whole = demo("outputs", "demo", FOURTH).out
    piece = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10")
    data = demo("outputs", "demo", FOURTH, "--offset", "7", "--length", "10", "--json").data

    assert whole == "FAILED test_dates: 23:00 != 00:00\n1 failed\n"
    assert piece.out == "test_dates\ncharacters 7 to 17 of 42; go on with --offset 17\n"
    assert (data["text"], data["end"], data["total"], data["next"]) == ("test_dates", 17, 42, 17)


def test_materialise_writes_files_and_says_how_many_are_new(demo: Callable[..., Any], tmp_path: Path) -> None:
    first, again = (demo("outputs", "demo", "--materialise", "work") for _ in range(2))

    assert first.out.splitlines()[-1] == "✓ 2 of 2 written under work"
    assert again.out.splitlines()[-1] == "✓ 0 of 2 written under work"
    assert (tmp_path / "work" / FOURTH).read_text() == "FAILED test_dates: 23:00 != 00:00\n1 failed"


def test_an_output_whose_blob_is_gone_is_listed_as_gone(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(store_large(log, ToolResult(call_id="c", text="word " * 2_000)), id="large")
    with sqlite3.connect("talks.db") as connection:
        connection.execute("DELETE FROM blobs")
    connection.close()

    assert cli("outputs", "talk", "--json").data["outputs"][0]["bytes"] is None
    assert " gone " in cli("outputs", "talk").out
    assert cli("outputs", "talk", "@state/logs/tool-results/large.json").status == 4

"""Conversations that other programs began: found by their titles, and read without a thought in the way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    ModeSwitch,
    NewEntry,
    TextPart,
    ToolCall,
    UserMessage,
)
from stenolog.analysis import timeline
from stenolog.events import Origin, Usage
from stenolog.importers import import_file
from stenolog.parts import ReasoningPart
from stenolog.requests import validate
from stenolog.testing import entries
from tests.cli.conftest import Ran
from tests.cli.terminal import Terminal
from tests.requests.judging import SHARED
from tests.transcripts.copilot_given import answer, call, result, session
from tests.transcripts.copilot_given import user as asks
from tests.transcripts.given import assistant, item, lines, message, meta, tool_result, tool_use, user

Cli = Callable[..., Ran]
START = datetime(2026, 3, 1, tzinfo=UTC)
UUIDS = [f"{digit * 8}-aaaa-bbbb-cccc-{digit * 12}" for digit in "123"]


def said(conversation: Conversation, day: int, *events: Any) -> None:
    conversation.extend([NewEntry(event, time=START + timedelta(days=day)) for event in events])


@pytest.fixture
def sessions(cli: Cli, tmp_path: Path) -> Cli:
    """Return three sessions: the one that was imported first ended last."""
    with stenolog.open(tmp_path / "talks.db") as log:
        card = AgentCard(model="claude-opus-4-5-20251101")
        place: dict[str, JsonValue] = {"cwd": "/home/user/bakery", "branch": "main"}
        began = ModeSwitch(cards={"claude": card}, meta={"claude-code": place})
        said(log[UUIDS[0]], 9, began, UserMessage(text="Why does the\noven not start?"))
        said(log[UUIDS[1]], 1, ModeSwitch(title="Named"), UserMessage(text="Not the title."))
        said(log[UUIDS[2]], 5, UserMessage(text="machine", author_kind="system"), UserMessage(text="third"))
    return cli


def test_the_list_has_the_newest_last_with_title_folder_model_and_turns(
    sessions: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [" ".join(row.split()) for row in sessions("ls").out.splitlines()[2:]]

    assert rows == [
        "22222222 2026-03-02 00:00 1 Named",
        "33333333 2026-03-06 00:00 1 third",
        "11111111 2026-03-10 00:00 bakery main opus-4-5 1 Why does the oven not start?",
    ]


def test_in_a_pipe_the_names_of_the_list_are_whole_and_no_line_is_ruled(
    sessions: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    *_, last = sessions("ls").out.splitlines()

    assert last.split()[0] == UUIDS[0]
    assert "claude-opus-4-5-20251101" in last


def test_a_uuid_is_shown_by_as_much_of_it_as_no_other_name_begins_with(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        for end in "34":
            log[f"0199a213-aaaa-7bcc-{end}333-bbbbbbbbbbbb"].append(UserMessage(text="hi"))

    rows = cli("ls", "--json").data

    assert {row["short_name"] for row in rows} == {f"0199a213-aaaa-7bcc-{end}333" for end in "34"}


def test_a_narrow_list_says_which_columns_it_has_no_room_for(
    sessions: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ran = sessions("ls")
    out = ran.out

    assert ran.err == "· hidden in 60 columns: BRANCH, MODEL, PROJECT (--json has all)\n"
    assert max(map(len, out.splitlines())) <= 60
    assert "Why does the oven not" in out


def test_at_a_terminal_the_list_says_how_long_ago_a_conversation_went_on(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(UserMessage(text="hi"), time=datetime.now(UTC) - timedelta(days=3, hours=1))

    with Terminal("ls", "--db", "talks.db", cwd=tmp_path) as terminal:
        assert "x" in terminal.expect("3 d ago")


def test_a_cost_of_which_a_part_is_unknown_is_marked_as_the_least_it_was(cli: Cli, tmp_path: Path) -> None:
    used = Usage(input=1_000_000, output=1)
    file = Origin(system="claude-code", id="m1")
    with stenolog.open(tmp_path / "talks.db") as log:
        whole = AssistantMessage(agent="a", model="gpt-5", usage=used, text="ok")
        log["whole"].append(whole)
        log["untold"].extend([whole, AssistantMessage(agent="a", model="gpt-5", text="and this")])
        log["cut"].append(AssistantMessage(agent="a", model="gpt-5", usage=used, text="x" * 99, source=file))
    rows = {row["name"]: row for row in cli("ls", "--json").data}

    assert all(row["known_cost_micro_usd"] > 1_000_000 for row in rows.values())
    assert {name: row["cost_is_incomplete"] for name, row in rows.items()} == {
        "whole": False,
        "untold": True,
        "cut": True,
    }
    assert cli("ls").out.count("≥1.25") == 2


def test_the_json_of_the_list_has_names_folders_and_models_whole(sessions: Cli) -> None:
    first, *_ = sessions("ls", "--json").data

    assert first["name"] == UUIDS[0]
    assert (first["short_name"], first["folder"]) == ("11111111", "/home/user/bakery")
    assert first["models"] == ["claude-opus-4-5-20251101"]


def test_the_beginning_of_a_name_in_the_list_is_a_name_to_every_command(sessions: Cli) -> None:
    assert "oven" in sessions("log", "11111111").out


def test_the_page_before_is_of_those_that_ended_earlier(sessions: Cli) -> None:
    shown = sessions("ls", "-n", "1", "--json").data
    before = sessions("ls", "-n", "1", "--older-than", "11111111", "--json").data

    assert [row["name"] for row in (*shown, *before)] == [UUIDS[0], UUIDS[2]]
    assert "1 older ones" in sessions("ls", "-n", "1", "--older-than", "11111111").err


CALL = ToolCall(id="c1", name="shell", arguments="{}")
THOUGHT = ReasoningPart(text="The user wants " * 30)


def test_the_words_and_the_calls_of_an_answer_stand_before_its_thoughts(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", parts=[THOUGHT, TextPart(text="Let me look."), CALL]))

    assert "Let me look. → shell({}) (thinks: The user" in cli("log", "x").out
    assert "\x1b[2m(thinks: The user" in cli("log", "x", "--color", "always").out


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens"])
def test_an_answer_that_was_cut_is_marked_wherever_it_is_shown(cli: Cli, tmp_path: Path, reason: str) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        cut = AssistantMessage(agent="coder", text="The failing " + "test " * 99, finish_reason=reason)
        log["x"].extend([UserMessage(text="Go."), cut])

    assert "[cut off at its limit of tokens] The failing" in cli("log", "x").out
    for command in (["timeline", "x"], ["show", "x", "3"]):
        assert f"cut off at its limit of tokens ({reason}): the rest is missing" in cli(*command).out


def test_a_call_that_was_cut_is_marked_too(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", tool_calls=[CALL], finish_reason="max_tokens"))
        items = timeline(log["x"].entries())

    assert [item.detail for item in items if "may be incomplete" in item.detail]
    assert "[cut off at its limit of tokens] → shell({})" in cli("log", "x").out
    for command in (["timeline", "x"], ["show", "x", "2"]):
        assert "this call may be incomplete" in cli(*command).out


def test_an_answer_that_ended_by_itself_is_not_marked() -> None:
    whole = entries(AssistantMessage(agent="a", text="ok", finish_reason="stop"))

    assert [item.detail for item in timeline(whole)] == [""]


# Sessions that were killed, or cut anywhere: `check file` and `import` say so, and never fail themselves.


SAMPLES = [
    *sorted((Path(__file__).parents[1] / "transcripts" / "sessions").iterdir()),
    *sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.json*")),
]
NOT_RUN = "No result: the call was interrupted."


def of_claude(calls: int, answered: int) -> bytes:
    uses = [tool_use(f"toolu_{nth}") for nth in range(calls)]
    results = [user(f"r{nth}", "a", [tool_result(f"toolu_{nth}")]) for nth in range(answered)]
    return lines(user("u", None, "Look"), assistant("a", "u", *uses), *results, user("v", "a", "And?"))


def of_codex(calls: int, answered: int) -> bytes:
    made = [item("function_call", name="sh", arguments="{}", call_id=f"c{n}") for n in range(calls)]
    results = [item("function_call_output", call_id=f"c{n}", output="done") for n in range(answered)]
    return lines(meta(), message("user", "Look"), *made, *results, message("user", "And?"))


def of_openai(calls: int, answered: int) -> bytes:
    function = {"name": "look", "arguments": "{}"}
    made = [{"id": f"c{nth}", "type": "function", "function": function} for nth in range(calls)]
    results = [{"role": "tool", "tool_call_id": f"c{nth}", "content": "done"} for nth in range(answered)]
    spoken = [{"role": "user", "content": "Look"}, {"role": "assistant", "tool_calls": made}]
    return json.dumps([*spoken, *results, {"role": "user", "content": "And?"}]).encode()


def of_copilot(calls: int, answered: int) -> bytes:
    made = [call(f"c{nth}") for nth in range(calls)]
    results = [result(f"c{nth}") for nth in range(answered)]
    return lines(*session(asks("Look"), answer("", *made), *results, asks("And?")))


def of_adk(calls: int, answered: int) -> bytes:
    """Return a session in whose format results may come after a person went on."""
    made = [{"function_call": {"id": f"c{nth}", "name": "look", "args": {}}} for nth in range(calls)]
    results = [
        {"function_response": {"id": f"c{nth}", "name": "look", "response": {}}} for nth in range(answered)
    ]
    turns = [("user", [{"text": "Look"}]), ("m", made), ("m", results), ("user", [{"text": "And?"}])]
    events = [
        {"id": f"e{nth}", "author": who, "timestamp": 1.0 + nth, "content": {"parts": parts, "role": who}}
        for nth, (who, parts) in enumerate(turns)
        if parts
    ]
    about = {"id": "s", "app_name": "app", "user_id": "u", "state": {}, "last_update_time": 9.0}
    return json.dumps({**about, "events": events}).encode()


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot, of_adk])
@pytest.mark.parametrize(("calls", "answered"), [(1, 0), (2, 0), (3, 1), (8, 0), (8, 6)])
def test_check_file_closes_every_call_that_a_person_went_on_after(
    cli: Callable[..., Any], made: Callable[[int, int], bytes], calls: int, answered: int
) -> None:
    Path("killed.jsonl").write_bytes(made(calls, answered))

    ran = cli("check", "file", "killed.jsonl", "--json")
    body = json.loads(cli("check", "file", "killed.jsonl", "--raw", "--api", "openai-chat").out)

    results = [each["content"] for each in body["messages"] if each["role"] == "tool"]
    assert ran.status == 0
    assert ran.data[0]["problems"]["call-without-result"] == calls - answered
    assert (len(results), results.count(NOT_RUN)) == (calls, calls - answered)
    assert list(validate("openai-chat", body)) == []


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot])
def test_an_imported_session_that_was_killed_can_be_sent(
    made: Callable[[int, int], bytes], tmp_path: Path
) -> None:
    (tmp_path / "killed.jsonl").write_bytes(made(3, 1))

    with stenolog.open(":memory:") as log:
        (found,) = import_file(log, tmp_path / "killed.jsonl").conversations
        again = import_file(log, tmp_path / "killed.jsonl").conversations[0]
        conversation = log[found.name]

        (agent,) = conversation.state().lanes
        conversation.join(agent, model="gpt-5")

        assert conversation.request(agent).sendable
        assert again.appended == 0
        assert conversation.state().anomalies == 0


@pytest.mark.parametrize("made", [of_claude, of_codex])
def test_a_killed_session_that_goes_on_gives_the_requests_of_one_import(
    made: Callable[[int, int], bytes], tmp_path: Path
) -> None:
    content = made(3, 1)
    following: dict[Any, bytes] = {
        of_claude: lines(
            assistant("b", "v", {"type": "text", "text": "Yes."}),
            user("late", "b", [tool_result("toolu_2", "late")]),
            user("w", "late", "Good."),
        ),
        of_codex: lines(
            message("assistant", "Yes."),
            item("function_call_output", call_id="c2", output="late"),
            message("user", "Good."),
        ),
    }
    after, bodies = following[made], []
    for versions in ([content + after], [content, content + after]):
        with stenolog.open(":memory:") as log:
            for version in versions:
                (tmp_path / "killed.jsonl").write_bytes(version)
                (found,) = import_file(log, tmp_path / "killed.jsonl").conversations
            conversation = log[found.name]
            (agent,) = conversation.state().lanes
            bodies.append(conversation.request(agent).body)
            assert conversation.state().anomalies == 0

    assert bodies[0] == bodies[1]
    assert NOT_RUN in json.dumps(bodies[0])


def prefixes(content: bytes, seed: int, count: int) -> list[bytes]:
    """Return prefixes of a file: cut at ends of lines, within lines, and in the elements of a list."""
    drawn = random.Random(seed)
    ends = [nth + 1 for nth, byte in enumerate(content) if byte == ord("\n")] or [0]
    cuts = [drawn.choice(ends) if nth % 2 else drawn.randrange(len(content)) for nth in range(count)]
    made = [content[:cut] for cut in cuts]
    if content.startswith(b"[{"):
        whole = json.loads(content)
        made += [json.dumps(whole[: drawn.randint(0, len(whole))]).encode() for _ in range(count)]
    return made


def named(made: Any) -> str:
    return str(made.name if isinstance(made, Path) else made.__name__)


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot, of_adk, *SAMPLES], ids=named)
def test_no_prefix_of_a_transcript_is_a_defect_of_check_file(
    cli: Callable[..., Any], made: Callable[[int, int], bytes] | Path
) -> None:
    content = made.read_bytes() if isinstance(made, Path) else made(4, 2)
    for nth, prefix in enumerate(prefixes(content, len(content), 12)):
        Path(f"{nth}.jsonl").write_bytes(prefix)

        assert cli("check", "file", f"{nth}.jsonl").status in (0, 1, 2), prefix[-200:]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the recorded transcripts are not beside the checkout")
def test_no_prefix_of_a_recorded_transcript_is_a_defect_of_check_file(cli: Callable[..., Any]) -> None:
    files = [path for path in sorted(SHARED.rglob("transcripts/**/*")) if path.suffix in (".json", ".jsonl")]
    for nth, file in enumerate(files):
        for cut, prefix in enumerate(prefixes(file.read_bytes(), nth, 2)):
            Path(f"{cut}{file.suffix}").write_bytes(prefix)

            assert cli("check", "file", f"{cut}{file.suffix}").status in (0, 1, 2), f"{file} cut {cut}"

"""What `stenolog request` says of a conversation that another program had."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.errors import ConversationNotFoundError, PositionNotFoundError
from stenolog.events import Origin, Usage
from stenolog.requests import RULES
from tests.cli.conftest import Ran
from tests.transcripts.given import assistant, lines, message, meta, text, tool_use, user

Cli = Callable[..., Ran]
CLAUDE = Origin(system="claude-code", id="m1")
REBUILT = (
    "the answers came from claude-code, so this is rebuilt from what the log has; what was sent besides "
    "(system prompt, tools) or left out is not recorded"
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def imported(tmp_path: Path, **usage: Any) -> None:
    answer = AssistantMessage(agent="claude", text="Done.", model="claude-opus-4-6", source=CLAUDE, **usage)
    with stenolog.open(tmp_path / "talks.db") as log:
        card = ModeSwitch(cards={"claude": AgentCard(model="claude-opus-4-6")}, joins=["claude"])
        log["x"].extend([card, UserMessage(text="Go on.", to=["claude"]), answer])


def test_the_body_is_that_of_the_agents_own_provider(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path)

    assert cli("request", "x", "--at", "2", "--json").data["api"] == "anthropic@1"
    assert cli("request", "x", "--at", "2", "--api", "plain", "--json").data["api"] == "plain@1"


def test_beside_the_tokens_stands_the_bill_and_how_much_of_it_the_log_does_not_have(
    cli: Cli, tmp_path: Path
) -> None:
    imported(tmp_path, usage=Usage(input=35_261, output=5, cache_read=10_403))
    out = " ".join(cli("request", "x", "--at", "2").out.split())
    data = cli("request", "x", "--at", "2", "--json").data

    assert "billed 35,261 tokens, 10,403 of them cached, by the answer at 3" in out
    assert "billed, but not in this log: some 35,000 tokens" in out
    assert data["bill"]["unexplained"]["tokens"] == 35_261 - data["size"]["tokens"]


def test_a_request_that_has_no_answer_yet_is_told_beside_the_one_before_it(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path, usage=Usage(input=35_261, output=5))
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(UserMessage(text="And now?", to=["claude"]))
    out = " ".join(cli("request", "x").out.split())

    assert "the request before it, at 2:" in out
    assert "billed for the request at 2, but not in this log: some 35,000 tokens" in out


def test_without_a_bill_it_says_that_nothing_tells_how_much_was_sent_besides(
    cli: Cli, tmp_path: Path
) -> None:
    imported(tmp_path)

    assert f"{REBUILT}; no bill tells how much" in " ".join(cli("request", "x", "--at", "2").out.split())


def test_of_a_request_that_stenolog_sent_nothing_is_missing(demo: Cli) -> None:
    out = demo("request", "--agent", "coder", "--at", "2").out

    assert "but not in this log" not in out
    assert "not in this log" not in out
    assert "came from" not in out


def test_the_first_question_of_a_thread_has_a_request_though_its_agent_answers_later(
    cli: Cli, tmp_path: Path
) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        answer = AssistantMessage(agent="assistant", text="Sunny.", source=Origin(system="langchain"))
        log["42"].extend([ModeSwitch(mode="chat"), UserMessage(text="How is the weather?"), answer])

    ran = cli("request", "42", "--at", "2")

    assert (ran.status, "How is the weather?" in ran.out) == (0, True)
    assert "request for assistant at entry 2" in ran.out


@pytest.mark.parametrize("columns", ["80", "100", "160"])
def test_the_text_of_a_part_has_room_and_no_line_is_too_long(
    demo: Cli, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    rows = demo("request", "--agent", "coder").out.splitlines()

    assert max(map(len, rows)) <= int(columns)
    assert any("Which test fails, an" in row for row in rows)


@pytest.mark.parametrize(
    ("billed", "figure"),
    [
        (106, "billed 100 tokens more than rebuilt: sent besides, or counted otherwise"),
        (6, "billed as many tokens as rebuilt"),
        (2, "billed 4 tokens less than rebuilt: left out, or counted otherwise"),
    ],
)
def test_whatever_the_bill_says_what_another_program_sent_is_said_not_to_be_recorded(
    cli: Cli, tmp_path: Path, billed: int, figure: str
) -> None:
    imported(tmp_path, usage=Usage(input=billed, output=5))
    out = " ".join(cli("request", "x", "--at", "2").out.split())
    bill = cli("request", "x", "--at", "2", "--json").data["bill"]

    assert f"{REBUILT}; {figure}" in out
    assert bill["note"] == f"{REBUILT}; {figure}"


@pytest.mark.parametrize("command", [("request", "x", "--raw"), ("export", "x", "--as", "openai")])
def test_a_body_and_an_export_say_on_stderr_alone_that_they_are_rebuilt(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    imported(tmp_path)
    ran = cli(*command)

    assert ran.err.splitlines() == [f"! {REBUILT}"]
    assert "rebuilt" not in ran.out


@pytest.mark.parametrize("view", [("--dropped",), ("--diff", "2"), ("--without", "2")])
def test_the_other_views_of_a_rebuilt_request_say_so_on_stderr(
    cli: Cli, tmp_path: Path, view: tuple[str, ...]
) -> None:
    imported(tmp_path)

    assert cli("request", "x", *view).err == f"· {REBUILT}\n"


def test_an_export_into_a_file_says_so_too(cli: Cli, tmp_path: Path) -> None:
    imported(tmp_path)
    ran = cli("export", "x", "--as", "openai", "-o", str(tmp_path / "out.json"))

    assert REBUILT in ran.err
    assert "rebuilt" not in (tmp_path / "out.json").read_text()


def test_a_body_that_stenolog_sent_is_printed_without_a_word(demo: Cli) -> None:
    assert demo("request", "demo", "--agent", "coder", "--raw").err == ""
    assert demo("export", "demo", "--as", "openai", "--agent", "coder").err == ""


@pytest.mark.parametrize("text", ["Go on.", "nowhere"])
def test_a_text_that_is_looked_for_is_looked_for_in_rebuilt_requests(
    cli: Cli, tmp_path: Path, text: str
) -> None:
    imported(tmp_path)
    ran = cli("explain", "text", "x", text)

    assert REBUILT in " ".join(ran.out.split())
    assert cli("explain", "text", "x", text, "--json").data["note"] == REBUILT


def test_a_text_in_requests_that_stenolog_sent_is_told_of_without_a_note(demo: Cli) -> None:
    assert "rebuilt" not in demo("explain", "text", "demo", "pytest", "--agent", "coder").out


def thread(tmp_path: Path) -> None:
    """Record a thread as LangGraph's saver does: settings of its own between the messages."""
    answer = AssistantMessage(
        agent="assistant", text="Sunny.", model="gpt-5.2", source=Origin(system="langchain")
    )
    own = ModeSwitch(meta={"langgraph": {"ns": ""}})
    with stenolog.open(tmp_path / "talks.db") as log:
        log["42"].extend([ModeSwitch(mode="chat"), UserMessage(text="How is it?"), own, own, answer])


def test_the_first_request_of_a_thread_names_the_model_of_its_answer(cli: Cli, tmp_path: Path) -> None:
    thread(tmp_path)
    out = cli("request", "42", "--at", "4").out

    assert "its answer at 5 names the model gpt-5.2" in out
    assert "not sendable" not in out
    assert "gpt-5.2" not in cli("request", "42", "--at", "4", "--raw").out


def test_an_entry_was_in_the_requests_that_were_answered_and_could_have_been_in_more(
    cli: Cli, tmp_path: Path
) -> None:
    thread(tmp_path)

    assert "sent in 1 of 3 sendable requests" in " ".join(cli("explain", "42", "2").out.split())


def test_a_conversation_that_no_agent_has_answered_asks_for_a_name(cli: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["boom"].append(UserMessage(text="Hello"))
    ran = cli("request", "boom")

    assert "no agent has answered yet" in ran.err
    assert "Say whose request you want: --agent NAME" in ran.err


def test_an_imported_session_with_sub_agents_is_its_main_agents_unless_another_is_named(
    cli: Cli, tmp_path: Path
) -> None:
    call = tool_use("t1", "Task", subagent_type="Explore", prompt="Look")
    records = (
        user("s1", None, "Look", isSidechain=True, agentId="abcdef12"),
        assistant("s2", "s1", text("I look"), isSidechain=True, agentId="abcdef12"),
        user("u1", None, "Find it"),
        assistant("a1", "u1", call),
    )
    for order, name in ((records, "late"), ((*records[2:], *records[:2]), "early")):
        (tmp_path / "session.jsonl").write_bytes(lines(*order))
        cli("import", "session.jsonl", "--name", name)

        for at in ("@", "2", "3", "4"):
            ran = cli("request", name, "--at", at, "--json")
            assert (ran.status, ran.data["agent"]) == (0, "claude"), (name, at)
        assert cli("export", name, "--as", "openai").status == 0
        assert "I look" in cli("request", name, "--agent", "agent-abcdef12").out


def test_a_system_prompt_that_the_log_has_is_not_said_to_be_missing(cli: Cli, tmp_path: Path) -> None:
    told = (message("user", "Hi"), message("assistant", "Hello."))
    for name, record in (("with", meta(base_instructions={"text": "Be brief."})), ("without", meta())):
        (tmp_path / "rollout.jsonl").write_bytes(lines(record, *told))
        cli("import", "rollout.jsonl", "--name", name)

    notes = [cli("request", name).out for name in ("with", "without")]

    assert ["sent besides (tools) or left out" in " ".join(note.split()) for note in notes] == [True, False]
    assert "(system prompt, tools)" in " ".join(notes[1].split())
    assert "(tools)" in cli("request", "with", "--raw").err


def test_an_imported_chat_of_several_agents_has_no_main_one(cli: Cli, tmp_path: Path) -> None:
    said = [{"role": "agent", "role_name": name, "content": "Hi"} for name in ("ann", "bob")]
    (tmp_path / "chat_1.json").write_text(json.dumps({"chat_id": 1, "conversation": said}))
    cli("import", "chat_1.json")

    assert "expected --agent, one of: ann, bob" in cli("request", "chat_1").err


@pytest.mark.parametrize(
    "words",
    [
        ("request", "42", "--agent", "nobody"),
        ("request", "42", "--agent", "nobody/task", "--raw"),
        ("request", "42", "--agent", "assistant", "--other", "nobody"),
        ("explain", "text", "42", "Hi", "--agent", "nobody"),
        ("explain", "compaction", "42", "--agent", "nobody"),
        ("explain", "agent", "42", "assistant", "--minus", "nobody"),
        ("export", "42", "--as", "openai", "--agent", "nobody"),
        ("cost", "42", "--context", "--agent", "nobody"),
        ("state", "42", "--steps", "--agent", "nobody"),
        ("cost", "42", "--cache", "--agent", "nobody"),
        ("cost", "42", "--plan", "--agent", "nobody"),
        ("serve", "--mcp", "--conversation", "42", "--agent", "nobody"),
    ],
)
def test_an_agent_of_a_name_that_nobody_has_is_refused_with_those_that_are_there(
    words: tuple[str, ...], cli: Cli, tmp_path: Path
) -> None:
    thread(tmp_path)
    ran = cli(*words)

    assert (ran.status, ran.out) == (2, "")
    assert "'42': no agent 'nobody' (known: assistant)" in ran.err
    assert cli("request", "42", "--agent", "assistant", "--at", "2").err == ""


def test_python_has_the_note_beside_the_bill(tmp_path: Path) -> None:
    imported(tmp_path, usage=Usage(input=35_261, output=5))
    with stenolog.open(tmp_path / "talks.db") as log:
        bill = log["x"].bill("claude", at=2)

        assert (bill.tokens, bill.is_short) == (35_261, True)
        assert bill.note.startswith(REBUILT)
        with pytest.raises(PositionNotFoundError):
            log["x"].bill("claude", at=9)
        with pytest.raises(ConversationNotFoundError):
            log["none"].bill("claude")


def test_a_request_that_stenolog_sent_has_no_note(demo: Cli, tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        assert log["demo"].bill("coder", at=2).note == ""


@pytest.mark.parametrize("options", ["--dropped --policy last:3", "--diff 8", "--budget 100", ""])
def test_every_column_that_is_printed_is_in_the_glossary(demo: Callable[..., Ran], options: str) -> None:
    terms = re.findall(r"^\| (\S[^|a-z]*) \|", (REFERENCE / "glossary.md").read_text(), re.MULTILINE)
    shown = demo("request", "--agent", "coder", "--at", "12", *options.split()).out.splitlines()
    headings = [shown[at - 1] for at, line in enumerate(shown) if line and set(line) == {"─"}]
    printed = {name for line in headings for name in re.split(r" {2,}", line.strip())}

    assert printed
    assert printed <= {name for term in terms for name in term.split(", ")}


def test_every_rule_is_on_the_page_that_the_glossary_names() -> None:
    page = (REFERENCE / "requests.md").read_text()

    assert "](requests.md#rules)" in (REFERENCE / "glossary.md").read_text()
    assert [rule for rule in RULES if f"- `{rule}`" not in page] == []

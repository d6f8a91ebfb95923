"""The commands that explain, as a user calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, Event, ModeSwitch, TextPart, ToolResult, UserMessage
from stenolog.adapters.conversation.log import open as open_log
from stenolog.apps.cli.commands.see.outputs import short_aliases
from stenolog.events import Origin, PositionRange, Usage
from stenolog.parts import ReasoningPart
from tests.analysis.crew import crew

TRANSCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "transcripts"
needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout"
)
SESSION = str(Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl")
MESSAGES = str(Path(__file__).parents[2] / "docs" / "examples" / "forgetful.json")


@pytest.fixture
def told(cli: Callable[..., Any]) -> Callable[..., list[str]]:
    """Return the lines that a command prints about the crew."""
    with open_log("talks.db") as log:
        for entry in crew():
            log["crew"].append(entry.event, id=entry.id, time=entry.time, expected=entry.position - 1)

    def lines(*command: str) -> list[str]:
        ran = cli(*command)
        assert (ran.status, ran.err) == (0, "")
        return [" ".join(line.split()) for line in ran.out.splitlines()]

    return lines


def test_explain_says_in_whose_requests_until_when_and_why_no_longer(told: Callable[..., list[str]]) -> None:
    lines = told("explain", "crew", "3")

    assert lines[3:12] == [
        "planner 14 on kept as #3 assistant, 10 tokens",
        "in 1 request that may be sent",
        "own: the agent's own answer",
        "coder 3-6 reworded as #2 user, 10 → 19 tokens",
        "sent in 2 requests, all with a receipt",
        "attributed: another speaker's words, quoted with their name",
        "7-8 no request due",
        "9 on dropped",
        "over-budget: it is older than what the budget has room for",
    ]
    assert "2 cause, receipt user Ada → planner Make the parser faster, then ship it." in lines


def test_explain_takes_positions_in_words_and_stops_where_it_is_told_to(
    told: Callable[..., list[str]],
) -> None:
    assert told("explain", "crew", "@~11", "--at", "6") == told("explain", "crew", "3", "--at", "6")
    assert not [line for line in told("explain", "crew", "3", "--at", "6") if "over-budget" in line]


def test_a_span_that_goes_on_for_ever_is_drawn_as_its_ends(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="hm"))
        log["talk"].append(ModeSwitch(hides=[PositionRange(first=1, last=2**53 - 1)]), expected=2)

    assert "1-9007199254740991  hides" in cli("explain", "talk", "3").out


def test_blame_goes_back_from_a_call_to_the_words_of_a_person(told: Callable[..., list[str]]) -> None:
    lines = told("explain", "crew", "7/1")

    assert lines[2] == '7 assistant coder → deploy({"what": "live"})'
    assert lines[3] == "↳ 8 control.call user Ada [approve] e7"
    assert lines[-1] == "← 2 cause user Ada → planner Make the parser faster, then ship it."


def test_blame_leads_through_an_imported_session_to_the_person(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "session")
    data = cli("explain", "session", "@{tool}", "--json").data["asked"]

    assert [link["field"] for link in data["links"]] == ["", "call", "cause"]
    assert (data["links"][-1]["person"], data["gap"]) == (True, "")


def test_blame_does_not_guess_in_an_imported_list_of_messages(cli: Callable[..., Any]) -> None:
    cli("import", MESSAGES, "--name", "session")
    data = cli("explain", "session", "@{tool}", "--json").data["asked"]
    lines = cli("explain", "session", "@{tool}").out.partition("\nIt refers to")[0].splitlines()

    assert [link["field"] for link in data["links"]] == ["", "call"]
    assert data["gap"].endswith("was imported from openai without a cause or a receipt")
    gap = lines.index(f"{data['gap']}.")
    assert lines[gap + 1] == "Possible, since it stood in view there; nothing says which, or whether:"
    assert {line.split()[0] for line in lines[gap + 4 :]} == {"?"}


def test_why_gives_each_message_its_rule_and_one_message_its_whole_text(
    told: Callable[..., list[str]],
) -> None:
    one = told("request", "--why", "crew", "--agent", "coder", "--at", "6", "--message", "4")

    assert one[1] == "4 tool from 5 165 tok kept by result: the result of one of the agent's own calls"
    assert "".join(one[2:]).count("lexer") == 60
    assert len(told("request", "--why", "crew", "--agent", "coder", "--at", "6")) == 14
    assert (
        told("request", "--why", "crew", "--agent", "coder", "--at", "6", "--message", "0")[2]
        == "shell, deploy"
    )


def test_why_dropped_gives_each_run_its_rule_and_tokens(told: Callable[..., list[str]]) -> None:
    lines = told("request", "crew", "--agent", "coder", "--dropped")

    sizes = r"budget \d+ tokens, measured for any API; room \d+ of \d+; cut to \d+ or what must stay, now \d+"
    assert re.fullmatch(sizes, lines[1])
    assert lines[4].startswith("2 not-addressed 10 Make the parser")
    assert lines[5].startswith("3-9 over-budget ")
    assert lines[-1] == "over-budget it is older than what the budget has room for"


def test_diff_shows_the_shared_prefix_and_a_run_of_drops_as_one_line(told: Callable[..., list[str]]) -> None:
    lines = told("request", "crew", "--diff", "6", "--at", "14", "--agent", "coder")

    assert lines[0].startswith("coder at 6 → 14 ")
    assert lines[1] == "shared prefix 1 message, 50 tok"
    assert next(line for line in lines if line.startswith("- ")).startswith("- 3-6 dropped: over-budget -")


def test_diff_of_two_policies_names_both(told: Callable[..., list[str]]) -> None:
    lines = told("request", "crew", "--at", "6", "--agent", "coder", "--policy", "last:1")

    at = next(at for at, line in enumerate(lines) if line.startswith("policies"))
    assert lines[at].split() == ["policies", "tokens:460", "→", "last:1"]
    assert lines[at + 1].startswith("shared prefix ")


def test_diff_says_when_two_requests_are_the_same_and_exits_1_where_asked_and_they_are_not(
    told: Callable[..., list[str]], cli: Callable[..., Any]
) -> None:
    same = ("request", "crew", "--diff", "6", "--at", "6", "--agent", "coder", "--exit-code")

    assert told(*same)[-1] == "the same, to the byte"
    ran = cli("request", "crew", "--diff", "6", "--at", "9", "--agent", "coder", "--exit-code", "--json")
    assert (ran.status, ran.envelope["status"]) == (1, "failed")
    assert cli("request", "crew", "--diff", "6", "--at", "9", "--agent", "coder").status == 0


def test_view_says_what_one_has_seen_that_the_other_has_not_and_how_it_is_known(
    told: Callable[..., list[str]],
) -> None:
    lines = told("explain", "agent", "crew", "coder", "--minus", "reviewer", "--at", "10")

    assert lines[0] == "coder has seen 4 entries that reviewer has not, at 10"
    assert lines[3].startswith("3 assistant planner → coder receipt 4 not-addressed Profile")
    assert lines[-1] == "receipt in a request that its receipt proves, to the byte"
    assert told("explain", "agent", "crew", "coder", "--minus", "coder") == [
        "coder has seen 0 entries that coder has not, at 14"
    ]


@needs_transcripts
def test_numbers_and_reasons_are_whole_on_a_narrow_terminal(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("import", str(sorted((TRANSCRIPTS / "claude_code").glob("*.jsonl"))[0]), "--name", "s")
    tried = ("cost", "s", "--plan", "--budget", "4k,16k", "--policy", "full,last:20")
    outputs = cli("outputs", "s", "--json").data["outputs"]
    rows = cli(*tried, "--json").data["rows"]
    other = ("request", "s", "--budget", "20", "--at", "@{user}")
    monkeypatch.setenv("COLUMNS", "60")

    told = cli(*tried).out
    assert [f"SENT {row['sent']:,} " in told for row in rows] == [True] * len(rows)
    told = cli("outputs", "s").out
    short = short_aliases([row["alias"] for row in outputs])
    assert [f" {each} " in told for each in short.values()] == [True] * len(outputs)
    reason = cli(*other, "--json").data["other"]["reason"]
    assert "over budget (" in reason
    assert reason in " ".join(cli(*other).out.split())


def test_what_a_wire_cannot_carry_is_one_line_for_each_rule(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        for number in range(5):
            log["talk"].append(UserMessage(text=f"question {number}"))
            thought = ReasoningPart(text="let me see " * 4)
            log["talk"].append(AssistantMessage(agent="coder", parts=[thought, TextPart(text="yes")]))

    def left_out(*command: str) -> list[list[str]]:
        rows = [line.split() for line in cli(*command).out.splitlines()]
        return [row for row in rows if "reasoning-not-carried" in row[1:]]

    [row] = left_out("request", "talk")
    assert row[:7] == ["-", "3-11", "left", "out", "reasoning-not-carried", "55", "→"]
    assert row[-2:] == ["5", "times"]
    [row] = left_out("request", "talk", "--dropped")
    assert row[:5] == ["3-11", "reasoning-not-carried", "55", "5", "times,"]
    assert len(cli("request", "talk", "--json").data["omissions"]) == 5
    assert len(cli("request", "talk", "--dropped", "--json").data["left_out"]) == 5


def test_runs_that_were_left_out_before_one_part_are_told_the_oldest_first(cli: Callable[..., Any]) -> None:
    thought = ReasoningPart(text="hm", signature="s", provider="anthropic")
    with open_log("talks.db") as log:
        conversation = log["cat"]
        for nth in range(2):
            conversation.append(UserMessage(text=f"no {nth}", in_context=False))
            conversation.append(AssistantMessage(agent="coder", parts=[thought, TextPart(text="ok")]))
        conversation.append(UserMessage(text="no 2", in_context=False))
        conversation.append(UserMessage(text="yes"))
    rows = [line.split() for line in cli("request", "cat", "--agent", "coder").out.splitlines()]
    gone = [int(row[1].partition("-")[0]) for row in rows if row[:1] == ["-"]]

    assert len(gone) >= 4
    assert gone == sorted(gone)


def test_the_bytes_of_an_answer_are_shown_by_their_sources(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="Né", to=("coder",)))
        receipt = log["talk"].request("coder").receipt
        log["talk"].append(AssistantMessage(agent="coder", text="So.", receipt=receipt))

    found = cli("explain", "talk", "3", "--bytes", "--json").data["bytes"]
    lines = cli("explain", "talk", "3", "--bytes").out.splitlines()
    refused = cli("explain", "talk", "1", "--bytes")

    assert [one["first"] for one in found] == [0, *(one["end"] for one in found[:-1])]
    assert len(lines) == len(found)
    assert any("/messages/0" in line and line.endswith(" 2") for line in lines)
    assert refused.status != 0
    assert "expected an answer with a receipt at 1" in refused.err


def test_an_interrupted_tool_is_no_request_that_was_sent(cli: Callable[..., Any]) -> None:
    assert cli("import", SESSION, "--name", "bakery").status == 0

    assert "sent in 5 requests\n" in cli("explain", "bakery", "5").out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0.25", "first set as cards/baker/parameters/temperature by the mode switch at x@1, 2026-03-01"),
        ("rye", "first said by user at x@2, 2026-03-01"),
        ("wheat", "first given by the tool look at x@4, 2026-03-01"),
        ("toolu_9", "first recorded as call_id of the entry by look at x@4"),
    ],
)
def test_a_value_is_told_in_a_sentence_with_the_entry_that_had_it_first(
    cli: Callable[..., Any], tmp_path: Path, text: str, told: str
) -> None:
    card = AgentCard(model="m", parameters={"temperature": 0.25})
    events: list[Event] = [
        ModeSwitch(cards={"baker": card}),
        UserMessage(text="rye or not?", to=["baker"]),
        AssistantMessage(agent="baker", text="rye, surely."),
        ToolResult(call_id="toolu_9", name="look", text="wheat"),
    ]
    with open_log(tmp_path / "talks.db") as log:
        log["later"].append(UserMessage(text="rye"), time=datetime(2026, 4, 1, tzinfo=UTC))
        for event in events:
            log["x"].append(event, time=datetime(2026, 3, 1, tzinfo=UTC))

    assert cli("explain", "text", text).out.startswith(told)


UNEXPLAINED = {
    "parts": ["system prompt", "tools"],
    "tokens": 1927,
    "first": 1927,
    "grown": 0,
    "billed": 2100,
    "rebuilt": 173,
    "at": 7,
}


@pytest.mark.parametrize(
    "command",
    [("request", "s", "--at", "7"), ("request", "s", "--at", "7", "--why"), ("explain", "s", "8")],
    ids=" ".join,
)
def test_of_a_log_that_was_imported_the_part_that_is_not_explained_is_counted_by_the_bill(
    cli: Callable[..., Any], command: tuple[str, ...]
) -> None:
    cli("import", SESSION, "--name", "s")

    assert cli(*command, "--json").data["bill"]["unexplained"] == UNEXPLAINED
    assert "not in this log: " in " ".join(cli(*command).out.split())


def test_the_request_of_an_imported_log_has_a_row_for_what_is_not_explained(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "s")
    rows = [" ".join(line.split()) for line in cli("request", "s", "--at", "7").out.splitlines()]

    assert any(row.startswith("billed 1,927 not logged, from the start: what came before") for row in rows)


def test_a_log_that_begins_in_the_middle_does_not_name_what_it_lacks(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    source, used = Origin(system="claude-code"), Usage(input=90_000, output=5)
    with open_log(tmp_path / "talks.db") as log:
        for words in ("Done.", "Done too."):
            log["cut"].append(AssistantMessage(agent="claude", text=words, usage=used, source=source))
            log["cut"].append(UserMessage("Go on", to=["claude"]))
    shown = " ".join(cli("request", "cut", "--at", "2").out.split())
    found = cli("cost", "cut", "--context", "--json").data["unexplained"]

    assert "not logged, from the start" in shown
    assert "from the start: what came before" in shown
    assert "from the start: what came before this file: not recorded" in " ".join(
        cli("cost", "cut", "--context").out.split()
    )
    assert found["parts"] == []
    assert found["first"] > 170_000


def test_the_numbers_of_an_imported_log_say_how_much_is_not_explained(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "s")

    assert cli("cost", "s", "--context", "--json").data["unexplained"] == {
        "parts": ["system prompt", "tools"],
        "tokens": 11382,
        "first": 11382,
        "grown": 0,
        "billed": 12600,
        "rebuilt": 1218,
        "at": 15,
    }
    assert "  not in this log: 11,382 of the 12,600 tokens billed" in cli("cost", "s", "--context").out
    assert cli("cost", "s").err.startswith("· the requests were sent by claude-code: tokens are as billed")


def test_a_log_that_stenolog_wrote_lacks_nothing(
    told: Callable[..., list[str]], cli: Callable[..., Any]
) -> None:
    assert told("cost", "crew")
    found = [
        cli(*command, "crew", "--agent", "coder", "--json").data
        for command in (("request",), ("request", "--why"), ("cost", "--context"))
    ]

    assert [(data.get("bill") or data)["unexplained"] for data in found] == [None, None, None]


def test_explain_says_in_words_what_an_entry_set_off(demo: Callable[..., Any]) -> None:
    shown = demo("explain", "demo", "4").out

    assert "What it set off\ncoder has to call its model: to answer 4  (resulted)\n" in shown

"""System 1, a chat room of command-line agents: real programs in turn, and why their rounds end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Entry, LlmError, ModeSwitch, UserMessage
from stenolog.adapters.engine.team_file import load
from stenolog.context import FullHistory, LastN, Pins, Reminder, SinceLastTurn
from stenolog.engine import Agent, EntryAppended, RetryPolicy, RoundRobin, Team
from stenolog.errors import ModelError
from stenolog.models import CommandLine, Model, Scripted
from tests.agents.given import PYTHON, killed, runs_on
from tests.command_line import run
from tests.engine.given import Clock
from tests.systems.given import Room

PASS = "....."
DEV, TESTER, OWNER = "Backend Dev", "Tester", "Owner"
NAMES = (DEV, TESTER, OWNER)


AT_ONCE = RetryPolicy(base=0.0)


def crew(
    *models: Model, moderator: str | list[str] = "", retries: RetryPolicy = AT_ONCE, **options: Any
) -> Team:
    """Return up to three roles in turn, which remember their sessions."""
    agents = [
        Agent(name, llm=model, policy=SinceLastTurn(), retries=retries)
        for name, model in zip(NAMES, models, strict=False)
    ]
    return Team(agents, turns=RoundRobin(pass_token=PASS, moderator=moderator), **options)


def talked(room: Room, make: Callable[[], Team], *texts: str, at: int = 0) -> list[Entry]:
    """Return a program that says this, lets the crew talk, and ends: by itself, or after so many outcomes."""
    found: list[Entry] = []

    async def work(team: Team) -> None:
        with room.opened() as conversation:
            for text in texts or (None,):
                async with aclosing(team.run(conversation, text)) as happening:
                    async for happened in happening:
                        found.extend([happened.entry] if isinstance(happened, EntryAppended) else [])
                        if at and sum(is_outcome(entry) for entry in found) == at:
                            return

    async def main() -> None:
        async with asyncio.timeout(20), make() as team:
            await work(team)

    asyncio.run(main())
    return found


def is_outcome(entry: Entry) -> bool:
    """Return whether it is an answer, or a failure other than a forgotten session."""
    event = entry.event
    return isinstance(event, AssistantMessage) or (
        isinstance(event, LlmError) and event.category != "process_exited"
    )


def answers(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(e.event.agent, e.event.text) for e in entries if isinstance(e.event, AssistantMessage)]


def errors(entries: list[Entry]) -> list[LlmError]:
    return [entry.event for entry in entries if isinstance(entry.event, LlmError)]


def over(room: Room) -> tuple[str, str]:
    """Return why the turns are over, by the last transition and by the state of the reopened log."""
    reason = room.look(lambda conversation: conversation.transitions())[-1].decision.reason
    return reason, room.look(lambda conversation: conversation.state()).turn_state.end_reason


def says(*texts: str) -> Scripted:
    return Scripted(*texts, endless=True)


# Turns


@pytest.mark.parametrize("said", [1, 2, 3, 4])
def test_whose_turn_it_is_survives_a_restart(room: Room, said: int) -> None:
    """Each restart is a new crew of new processes on a log that was opened anew."""

    def of_programs() -> Team:
        return crew(*[runs_on(env={"PASSES": "1"})] * 3)

    talked(room, of_programs, "Ideas?", at=said)
    whose = room.look(lambda conversation: conversation.state()).turn_state.holders
    rest = talked(room, of_programs, at=1)

    assert (whose, [agent for agent, _ in answers(rest)]) == ((NAMES[said % 3],), [NAMES[said % 3]])


FAILS = Scripted(ModelError("other", "broken"), endless=True)
ENDS = {
    "all pass in a row": ([says("Yes.", PASS), says(PASS), says(PASS)], "", 3, "all others passed"),
    "the moderator passes": (
        [says("Yes."), says("No."), says(PASS)],
        OWNER,
        3,
        f"{OWNER}, who moderates, passed",
    ),
    "one of two moderators passes": (
        [says("Yes."), says(PASS), says("No.")],
        [TESTER, OWNER],
        2,
        f"{TESTER}, who moderates, passed",
    ),
    "all fail in a row": ([FAILS] * 3, "", 0, "all failed in a row"),
}


@pytest.mark.parametrize(("models", "moderator", "said", "reason"), ENDS.values(), ids=ENDS)
def test_a_round_ends_with_its_reason_in_the_transition(
    room: Room, models: list[Model], moderator: str | list[str], said: int, reason: str
) -> None:
    entries = talked(room, lambda: crew(*models, moderator=moderator), "Ideas?")

    assert len(answers(entries)) == said
    (transition, ended) = over(room)
    assert (ended, transition.rpartition("; ")[2]) == (reason, reason)


def test_a_pass_of_another_role_is_not_said_to_a_program(room: Room) -> None:
    echo = CommandLine("cat")
    entries = talked(room, lambda: crew(says("Yes."), says(PASS), echo, moderator=TESTER), "Ideas?")
    on = talked(room, lambda: crew(says("Yes."), says(PASS), echo), "More?", at=1)

    assert answers(entries)[-1] == (TESTER, PASS)
    assert answers(on) == [(OWNER, f"User: Ideas?\n\nAssistant ({DEV}): Yes.\n\nUser: More?")]


# Programs


def test_a_dead_process_is_relaunched_and_told_the_full_history(room: Room) -> None:
    """Each is killed once between two turns; the dev dies in the middle of one, too."""
    model = runs_on(env={"BRIEF": "1"})

    async def work() -> list[Entry]:
        found = []
        with room.opened() as conversation:
            async with crew(model, model, model, moderator="") as team:
                for text in ("one", "two", "three"):
                    async for happened in team.run(conversation, text, to=NAMES):
                        found += [happened.entry] if isinstance(happened, EntryAppended) else []
                    for name in NAMES:
                        await killed(model, name, room.name)
        return found

    entries = asyncio.run(work())

    assert dict(answers(entries)) == dict.fromkeys(NAMES, "one two three")
    assert [error.category for error in errors(entries)] == ["process_exited"] * 6
    assert all("ended by SIGKILL" in error.message for error in errors(entries))


def test_a_program_that_died_within_its_turn_is_tried_again_ever_later(room: Room) -> None:
    clock = Clock()
    dies = CommandLine([*PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"])
    retries = RetryPolicy(attempts={"process_exited": 5}, base=1.0, max_delay=5.0)

    async def work() -> None:
        with stenolog.open(room.path, clock=clock) as log:
            async with crew(dies, retries=retries, world=clock.world) as team:
                async for _ in team.run(log[room.name], "Go"):
                    pass

    asyncio.run(work())

    failed = errors(room.entries())
    assert [error.attempt for error in failed] == [1, 2, 3, 4, 5]
    assert [round(seconds) for seconds in clock.slept] == [1, 2, 4, 5]
    assert over(room)[1] == "all failed in a row"


CONFIGURED = """
[turns]
rule = "round_robin"
pass_token = "....."

[breaker]
failures = 2
recovery_time = 60

[agents.dev]
model = { use = "cli:sleep 60", patience = 1 }
timeouts = { first_token = 0.05 }
retries = { attempts = { timeout = 3 }, base = 0.01 }
"""


def test_timeouts_retries_and_the_circuit_breaker_are_configuration_and_stand_in_the_log(
    room: Room, tmp_path: Path
) -> None:
    file = tmp_path / "crew.toml"
    file.write_text(CONFIGURED)

    talked(room, lambda: load(file).team, "Hello", at=3)

    entries = room.entries()
    assert [(error.category, error.message.partition(":")[0]) for error in errors(entries)] == [
        ("timeout", "no first token for 0.05 s"),
        ("timeout", "no first token for 0.05 s"),
        ("overloaded", "sleep is not called"),
    ]
    last = entries[-1]
    assert isinstance(last.event, LlmError)
    assert last.event.retry_at is not None
    assert 58 < (last.event.retry_at - last.time).total_seconds() <= 60


def test_latencies_and_failures_are_measured(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    talked(room, lambda: crew(runs_on(), says(PASS), says(PASS), moderator=OWNER), "Hello", "and die-later")

    status = run(["cost", room.name, "--db", str(room.path), "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["data"]["rows"]}

    assert status == 0
    assert (rows[DEV]["errors"], rows[DEV]["answers"]) == ({"process_exited": 1}, 2)
    assert all(rows[DEV][time]["median"] is not None for time in ("took_ms", "first_token_ms"))


# Context


def test_a_role_is_reminded_after_every_second_answer_through_restarts(room: Room) -> None:
    """Each answer is that of another program run; a pass does not count."""
    pinned = UserMessage(text="No passwords in logs.", tags=["requirement"])
    policy = FullHistory() | Reminder(2) | Pins(tags=["requirement"])
    room.write(ModeSwitch(turns=RoundRobin(pass_token=PASS), joins=[DEV]), pinned)
    asked = []
    for text in ("one", PASS, "two", "three", "four", "five"):
        script = Scripted(text)
        dev = Agent(DEV, llm=script, policy=policy, persona="You write the server.")
        talked(room, lambda dev=dev: Team([dev]), f"Say {text}")  # type: ignore[misc]
        asked.append(script.prompts[0].body["messages"][-1]["content"])

    reminded = [text.startswith("[a reminder of what you were told]") for text in asked]
    assert reminded == [False, False, False, True, False, True]
    assert all(words in asked[3] for words in ("You write the server.", "No passwords in logs."))


def test_where_a_role_is_shown_less_the_operator_is_told_too(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    dev = Agent(DEV, llm=says("Yes."), policy=LastN(2))
    with caplog.at_level(logging.INFO, "stenolog.engine"):
        talked(room, lambda: Team([dev]), "one", "two", "three")

    told = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "stenolog.engine"]
    assert told == [
        ("WARNING", f"room at 4: {DEV} is not shown 2"),
        ("INFO", f"room at 6: {DEV} is not shown 2-4"),
    ]
    assert [
        item.position
        for item in room.look(lambda conversation: conversation.timeline())
        if item.kind == "cut"
    ] == [5]


def test_after_a_reset_a_program_has_heard_nothing_and_a_copy_has_all(room: Room, tmp_path: Path) -> None:
    def programs() -> Team:
        return crew(runs_on(env={"BRIEF": "1"}))

    before = [*talked(room, programs, "one", "two")]
    with room.opened() as conversation:
        conversation.log.backup(tmp_path / "before.db")
        conversation.append(
            ModeSwitch(context_from=conversation.position + 1), expected=conversation.position
        )
    after = talked(room, programs, "three")

    assert answers(after) == [(DEV, "three")]
    assert Room(tmp_path / "before.db").entries() == before == room.entries()[: len(before)]


# Import


def test_an_imported_chat_goes_on_with_the_next_role(
    room: Room, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [(None, "Build a login."), (DEV, "Done."), (TESTER, "It breaks."), (OWNER, PASS)]
    messages = [
        {"role": "user", "content": text, "timestamp": f"2025-03-01T10:0{minute}:00"}
        | ({"role": "agent", "role_display_name": name} if name else {})
        for minute, (name, text) in enumerate(said)
    ]
    file = tmp_path / "chat_42.json"
    file.write_text(json.dumps({"metadata": {"chat_id": 42}, "conversation": messages}))

    assert run(["import", str(file), "--db", str(room.path)]) == 0
    imported = room._replace(name="chat_42")
    entries = talked(imported, lambda: crew(CommandLine("cat"), says(PASS), says(PASS)), "And?", at=1)

    assert "✓ chat_42  5 entries  neurocrew" in capsys.readouterr().out
    answer = (
        f"User: Build a login.\n\nAssistant ({DEV}): Done.\n\nAssistant ({TESTER}): It breaks.\n\nUser: And?"
    )
    assert answers(entries) == [(DEV, answer)]

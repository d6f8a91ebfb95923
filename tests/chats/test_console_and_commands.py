"""A chat at the terminal, and the commands that every chat has."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

import stenolog
from stenolog import Agent, Log, Team, ToolCall, UserMessage
from stenolog.apps.chats.commands import CommandContext, TypedCommand, call, typed_command
from stenolog.chats import COMMANDS, ChatSession, Console, Delivery, OutgoingMessage, commands
from stenolog.context import LastN, Pins, SinceLastTurn
from stenolog.engine import RoundRobin
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, Scripted

from .given import at_once, echo, team, until


def shown(log: Log, who: Team, *lines: str, **options: Any) -> list[str]:
    """Return the lines shown at the terminal for these lines."""
    texts: list[str] = []
    asyncio.run(Console(who, log, lines=lines, show=texts.append, **options).serve())
    return texts


def test_each_line_is_heard_when_all_has_come_to_rest_after_the_one_before(log: Log) -> None:
    assert shown(log, team(), "one", "two", "") == ["you said one", "you said two"]


def test_lines_that_are_known_from_the_start_are_said_once_however_often_it_is_started(log: Log) -> None:
    shown(log, team(), "one", "/reset", "two")
    length = log["console"].position

    assert shown(log, team(), "one", "/reset", "two", "three")[-1] == "you said three"
    assert log["console"].position == length + 2


def test_lines_come_from_stdin_where_none_are_given(
    log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    asyncio.run(Console(team(), log).serve())

    assert capsys.readouterr().out == "you said one\nyou said two\n"


def test_an_invalid_byte_at_stdin_is_replaced_and_the_lines_behind_it_are_heard(
    log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\ntwo\n"), "utf-8"))
    asyncio.run(asyncio.wait_for(Console(team(), log).serve(), 5))

    assert capsys.readouterr().out == "you said a\ufffd\nyou said two\n"


def test_a_stdin_that_fails_is_at_its_end(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
            raise ValueError("broken")

    monkeypatch.setattr("sys.stdin", Broken())
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    asyncio.run(asyncio.wait_for(Console(team(), log).serve(), 5))

    assert list(log) == []


@pytest.mark.parametrize("answer", ["a reply to a command", "an answer"])
def test_it_ends_where_nobody_reads_what_is_shown_and_shows_it_at_the_next_start(
    log: Log, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    def unread(_: str) -> None:
        raise BrokenPipeError

    lines = ["/help"] if answer == "a reply to a command" else ["one", "two"]
    with pytest.raises(BrokenPipeError):
        asyncio.run(asyncio.wait_for(Console(team(), log, lines=lines, show=unread).serve(), 5))

    assert shown(log, team(), "one", "two") == ["you said one", "you said two"]
    assert caplog.records == []


def test_what_a_terminal_would_obey_is_spelled_out(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(Console(team(lambda _: "\x1b[2Jgone"), log, lines=["one"]).serve())

    assert capsys.readouterr().out == "\\x1b[2Jgone\n"


def test_what_cannot_be_said_is_told(log: Log) -> None:
    from stenolog import ModeSwitch

    shown(log, team(), "one")
    log["console"].submit(ModeSwitch(leaves=["coder"]))

    assert shown(log, team(), "one", "@coder two")[-1].startswith(
        "✗ user_message: asked, but lane coder is closed"
    )


def test_a_start_delivers_what_was_said_and_not_shown(log: Log) -> None:
    asyncio.run(team().ask(log["console"], "one"))

    assert (shown(log, team()), shown(log, team())) == (["you said one"], [])


def test_a_name_of_several_words_is_called_with_underscores(log: Log) -> None:
    assert shown(log, team(echo, "Backend Dev", "Tester"), "@backend_dev, look") == [
        "Backend Dev: you said @backend_dev, look"
    ]


def test_agents_of_several_are_shown_by_name_and_mentioned_by_name(log: Log) -> None:
    texts = shown(log, team(echo, "dev", "qa"), "@QA look", names={"qa": "Tester"}, author="Ann Lee")

    assert texts == ["Tester: you said @QA look"]
    assert [e.event.author for e in log["console"].entries() if isinstance(e.event, UserMessage)] == [
        "Ann Lee"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/reset", TypedCommand("reset", "", "")),
        ("/Context@crew_bot  dev ", TypedCommand("context", "crew_bot", "dev")),
        ("/refuse too\nmuch", TypedCommand("refuse", "", "too\nmuch")),
        ("/etc/fstab is full", None),
        ("see /reset", None),
        ("/", None),
    ],
)
def test_a_command_is_a_word_behind_a_slash(text: str, expected: TypedCommand | None) -> None:
    assert typed_command(text) == expected


def test_help_lists_every_command(log: Log) -> None:
    [text] = shown(log, team(), "/help")

    assert text.splitlines() == [f"/{name} {what}" for name, what in commands()]
    assert list(log) == []


def test_a_chat_may_have_commands_of_its_own(log: Log) -> None:
    async def oven(told: CommandContext) -> str:
        """how hot it is"""
        return "230 °C"

    own = {"oven": oven, "help": COMMANDS["help"]}

    assert shown(log, team(), "/oven", "/help", "/reset", commands=own) == [
        "230 °C",
        "/oven how hot it is\n/help this list",
        "There is no command /reset; /help lists them.",
    ]
    assert "oven" not in COMMANDS


def test_start_says_who_is_here(log: Log) -> None:
    assert shown(log, team(echo, "dev", "qa"), "/start") == [
        "Here are dev, qa. Write, and they will hear it. /help lists the commands."
    ]


def test_what_is_no_command_is_told_so(log: Log) -> None:
    assert shown(log, team(), "/rest") == ["There is no command /rest; /help lists them."]


def test_status_says_whose_turn_it_is_and_what_each_lane_does(log: Log) -> None:
    passing = RoundRobin(pass_token=".....")
    who = team(
        lambda prompt: "....." if "said" in str(prompt.body) else echo(prompt), "dev", "qa", turns=passing
    )

    assert shown(log, who, "one", "/status")[-1].splitlines() == [
        "4 entries. Nobody has the turn: all others passed.",
        "- dev: rests",
        "- qa: rests",
    ]


def test_an_agent_that_has_failed_goes_on_when_it_is_told_to(log: Log) -> None:
    model = Scripted(ModelError("refused", "no"), "Well, then.")
    texts = shown(log, Team([Agent("dev", llm=model)]), "one", "/status", "/continue", "/continue")

    assert texts == [
        "(dev could not answer: the model declined. /continue goes on.)",
        "3 entries. Nobody has the turn.\n- dev: has failed (refused), /continue goes on",
        "It goes on.",
        "Well, then.",
        "There is nothing to go on with.",
    ]


def test_what_is_under_way_is_cancelled_and_goes_on_again(log: Log) -> None:
    begun = asyncio.Event()

    async def look() -> str:
        """Look."""
        begun.set()
        await asyncio.sleep(60)
        return "seen"

    model = Scripted(ToolCall(id="1", name="look"), echo)
    who, texts = Team([Agent("dev", llm=model, tools=[look])]), list[str]()

    async def send(piece: OutgoingMessage) -> None:
        texts.append(piece.text)

    async def main() -> list[str]:
        room = ChatSession(who, Delivery(log["ann"], "mail:ann", send))
        async with room.open():
            await room.receive("one")
            await begun.wait()
            replies = [
                await room.run_command(TypedCommand("status", "", "")),
                await room.run_command(TypedCommand("cancel", "", "")),
            ]
            await room.drain()
            replies.append(await room.run_command(TypedCommand("cancel", "", "")))
            replies.append(await room.run_command(TypedCommand("continue", "", "")))
            await until(lambda: texts)
            return replies

    replies = asyncio.run(main())

    assert replies == [
        "3 entries. Nobody has the turn.\n- dev: runs look",
        "Stopped.",
        "Nobody is at work.",
        "It goes on.",
    ]
    assert len(texts) == 1


def test_a_reset_while_agents_work_stops_them_first(log: Log) -> None:
    begun = asyncio.Event()

    async def look() -> str:
        """Look."""
        begun.set()
        await asyncio.sleep(60)
        return "seen"

    model = Scripted(ToolCall(id="1", name="look"), lambda prompt: str(len(prompt.body["messages"])))
    who, texts = Team([Agent("dev", llm=model, tools=[look])]), list[str]()

    async def send(piece: OutgoingMessage) -> None:
        texts.append(piece.text)

    async def main() -> str:
        async with ChatSession(who, Delivery(log["ann"], "mail:ann", send)).open() as room:
            await room.receive("one")
            await begun.wait()
            said = await room.run_command(TypedCommand("reset", "", ""), id="ann:2")
            await room.drain()
            await room.receive("two")
            await room.drain()
            return said

    said = asyncio.run(main())

    assert said.startswith("A new start: the agents no longer see entries 1 to ")
    assert texts == ["1"]


def test_a_refusal_may_have_a_reason(log: Log) -> None:
    from stenolog.tools import tool

    @tool(approval=True)
    def sell() -> str:
        """Sell."""
        return "sold"

    def reply(prompt: ModelRequest) -> object:
        last = prompt.body["messages"][-1]
        return ToolCall(id="1", name="sell") if last["content"] == "sell" else f"I heard {last['content']}"

    who = Team([Agent("dev", llm=Scripted(reply, endless=True), tools=[sell])])
    texts = shown(log, who, "sell", "/refuse too cheap", "/approve")

    assert texts[1:] == ["It does not run: sell.", "I heard too cheap", "No call waits for you."]
    assert shown(log, who, "sell", "/refuse too cheap") == ["That was decided."]


def test_a_reset_that_is_told_again_stops_nobody(log: Log) -> None:
    shown(log, team(), "one", "/reset")
    asyncio.run(team().send(log["console"], "two"))
    told = CommandContext(log["console"], team(), id="console:2")

    assert asyncio.run(call("reset", told)).startswith(
        "A new start: the agents no longer see entries 1 to 3."
    )
    assert log["console"].state().lane("coder").status == "awaiting_llm"


def test_context_is_an_outline_of_what_an_agent_is_shown(log: Log) -> None:
    texts = shown(
        log, team(echo, "dev", "qa"), "@dev one", "/reset", "@dev two", "/context dev", "/context cook"
    )

    assert texts[-2].splitlines()[0].startswith("What dev sees at ")
    assert any(line.startswith("- left out: ") and ", reset, " in line for line in texts[-2].splitlines())
    assert texts[-1] == "/context: no agent 'cook' (known: dev, qa)"


def test_context_says_what_an_agent_has_in_its_session(log: Log) -> None:
    who = Team([Agent("dev", llm=Scripted("Yes.", endless=True), policy=SinceLastTurn())])
    lines = shown(log, who, "one", "two", "/context")[-1].splitlines()

    assert lines[1].startswith("- in its session, so not sent again: 2-5, ")
    assert [line for line in lines if "delivered" in line] == []


def test_what_a_person_pins_is_heard_and_stays_where_a_policy_pins_a_tag(log: Log) -> None:
    who = Team([Agent("dev", llm=Scripted("Yes.", endless=True), policy=LastN(2) | Pins(tags=["intent"]))])

    texts = shown(log, who, "/pin Build a login.", "one", "two", "three", "/pin")

    assert texts == ["It is pinned.", "Yes.", "Yes.", "Yes.", "Yes.", "/pin: expected a text"]
    assert "Build a login." in str(log["console"].request("dev").body)
    assert shown(log, team(), "/pin Build it.", conversation="other")[0].startswith(
        "/pin: no agent has a policy"
    )


def test_the_operator_is_told_why_an_agent_has_failed_and_people_are_not(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    who = Team([Agent("dev", llm=Scripted(ModelError("other", "no-such-agent could not be started")))])

    texts = shown(log, who, "one")

    assert [record.getMessage() for record in caplog.records if record.name == "stenolog.chats"] == [
        "console at 3: dev has failed: other: no-such-agent could not be started"
    ]
    assert "no-such-agent" not in str(texts)


def test_what_cannot_be_said_is_told_to_whoever_says_it(log: Log) -> None:
    async def main() -> None:
        room = ChatSession(team(), Delivery(log["ann"], "mail:ann", _nothing, backoff=at_once))
        await room.receive("one", to="cook")

    with pytest.raises(stenolog.errors.AgentNotFoundError, match="cook"):
        asyncio.run(main())


def test_a_store_that_is_busy_stops_no_team(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    who, failures, texts = team(), [stenolog.errors.StoreTimeoutError("busy")], list[str]()
    run = who.run

    def busy(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return run(*args, **options)

    async def send(piece: OutgoingMessage) -> None:
        texts.append(piece.text)

    async def main() -> None:
        async with ChatSession(who, Delivery(log["ann"], "mail:ann", send, backoff=at_once)).open() as room:
            await room.receive("one")
            await room.drain()

    monkeypatch.setattr(who, "run", busy)
    asyncio.run(main())

    assert texts == ["you said one"]


async def _nothing(piece: OutgoingMessage) -> None:
    raise AssertionError(piece)

"""A run's result, messages with files, and runs that a program stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, Team, ToolCall, UserMessage
from stenolog.analysis import usage
from stenolog.engine import Agent, AgentTool, AskPerson, Limits, Replay, RunResult, StreamDelta, after_answer
from stenolog.errors import CallerError, ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.parts import FilePart, ImagePart, TextPart
from stenolog.requests import FORMATS
from stenolog.tools import Attachment, ToolContext, tool
from tests.engine.given import answers, call, errors, opened, run
from tests.postgres.crash_points import crash_points

PNG = b"\x89PNG\r\n\x1a\n0123"


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Conversation]:
    with opened(tmp_path / "t.db") as conversation:
        yield conversation


def agent(*turns: Any, **settings: Any) -> Agent:
    return Agent("coder", llm=Scripted(*turns), **settings)


def ended(team: Team, talk: Conversation, *said: Any) -> RunResult:
    return run(team.run_to_end(talk, *said))


@tool(approval=True)
def sell() -> str:
    """Sell."""
    return "sold"


@tool
async def find(call: ToolContext) -> str:
    """Find."""
    return str(await call.ask("What?"))


class TestResults:
    """What a run gives at its end."""

    def test_a_result_has_the_answer_the_new_entries_and_what_they_used(self, talk: Conversation) -> None:
        team = Team([agent("One.", "Two.")])
        ended(team, talk, "First")
        result = ended(team, talk, "Second")

        assert (result.answer, result.output, result.why, result.error) == ("Two.", "Two.", "rest", None)
        assert [entry.position for entry in result.entries] == [4, 5]
        assert result.usage == answers(talk)[-1].usage
        assert result.cost == 0.0

    @pytest.mark.parametrize("api", sorted(FORMATS))
    def test_the_new_messages_are_the_end_of_the_next_request_in_every_format(
        self, talk: Conversation, api: str
    ) -> None:
        team = Team([agent("One.", [call("look")], "Two.", tools=[sell])])
        ended(team, talk, "First")
        result = ended(team, talk, "Second")
        talk.append(UserMessage(text="Third"))
        request = talk.request("coder", api=api)
        sent = request.body[request.messages_key]
        if isinstance(sent, list):
            new = result.messages(api)

            assert new
            assert sent[-len(new) - 1 : -1] == new

    def test_an_answer_of_an_earlier_run_is_found_by_the_id_of_its_message(self, talk: Conversation) -> None:
        team = Team([agent("One.")])
        first = run(team.run_to_end(talk, "First", id="m1"))
        again = run(team.run_to_end(talk, "First", id="m1"))

        assert (again.answer, again.entries, again.usage.input) == (first.answer, (), 0)

    @pytest.mark.parametrize(
        ("turns", "limits", "why", "category"),
        [
            ((), Limits(), "failed", "other"),
            (([call("look")],), Limits(max_steps=1), "limit", "budget"),
            (([call("sell")],), Limits(), "approval", ""),
            (([call("find")],), Limits(), "question", ""),
            ((ModelError("cancelled", "stopped"),), Limits(), "cancelled", ""),
        ],
    )
    def test_a_result_says_why_the_run_ended(
        self, talk: Conversation, turns: Any, limits: Limits, why: str, category: str
    ) -> None:
        result = ended(Team([agent(*turns, limits=limits, tools=[sell, find])]), talk, "Go")

        assert result.why == why
        assert (result.error.category if result.error else "") == category
        waits = {"approval": ["sell"], "question": ["find"]}
        assert [each.name for each in result.pending] == waits.get(why, [])

    def test_an_answer_that_a_check_holds_back_waits_for_a_person(self, talk: Conversation) -> None:
        held = after_answer(lambda answer: AskPerson("Is it so?"))
        result = ended(Team([agent("One.", checks=[held])]), talk, "Go")

        assert (result.why, result.error is not None, result.pending) == ("approval", True, ())

    @pytest.mark.parametrize("context", ["fresh", "fork", "scope"])
    def test_a_worker_that_waits_ends_the_run_and_each_run_counts_its_own_calls(
        self, talk: Conversation, context: Any
    ) -> None:
        worker = AgentTool(Agent("w", llm=Scripted([call("sell")], "Sold."), tools=[sell]), context=context)
        asks = ToolCall(id="d1", name="ask_w", arguments='{"task": "Sell"}')
        team = Team([agent([asks], "So.", tools=[worker])])
        waits = ended(team, talk, "Go")
        [pending] = waits.pending
        where = talk.log[pending.conversation]
        run(team.approve(where, pending.call))
        done = ended(team, talk)

        assert (waits.why, waits.answer, done.why, done.answer) == ("approval", "", "rest", "So.")
        used = [
            entry.event.usage
            for name in talk.log
            for entry in talk.log[name]
            if isinstance(entry.event, stenolog.AssistantMessage) and entry.event.usage is not None
            if entry.event.receipt is not None and (name == talk.name or entry.event.agent == "w")
        ]
        assert (waits.cost, done.cost) == (0.0, 0.0)
        assert waits.usage.output + done.usage.output == sum(each.output for each in used)
        assert waits.usage.input + done.usage.input == sum(each.input for each in used)


class TestInputs:
    """Messages with files and pictures."""

    def test_each_item_is_kept_by_what_it_contains(self, talk: Conversation, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(PNG)
        (tmp_path / "b.md").write_text("# Rye @coder", "utf-8")
        (tmp_path / "c.wav").write_bytes(b"\xff\x00\x01")
        items: list[Any] = [
            "look",
            tmp_path / "a.txt",
            tmp_path / "b.md",
            PNG,
            tmp_path / "c.wav",
            TextPart("so"),
        ]
        attached = Attachment(b"%PDF-1", name="d.pdf"), Attachment(b"x", "application/x-own", "e")
        run(Team([agent("I see.")]).ask(talk, [*items, *attached]))
        message = talk.entry(2).event
        blob = talk.log.blobs.put

        assert isinstance(message, UserMessage)
        assert message.to == ()
        assert list(message.parts) == [
            TextPart("look"),
            ImagePart(blob=blob(PNG)),
            TextPart("b.md:\n# Rye @coder"),
            ImagePart(blob=blob(PNG)),
            FilePart(name="c.wav", media_type="audio/x-wav", blob=blob(b"\xff\x00\x01")),
            TextPart("so"),
            FilePart(name="d.pdf", media_type="application/pdf", blob=blob(b"%PDF-1")),
            FilePart(name="e", media_type="application/x-own", blob=blob(b"x")),
        ]

    def test_the_model_sees_the_picture_also_in_an_async_conversation(self, tmp_path: Path) -> None:
        model = Scripted("I see.")

        async def main() -> None:
            async with stenolog.open_async(tmp_path / "t.db") as log:
                await Team([Agent("coder", llm=model)]).run_to_end(log["x"], ["look", PNG])

        asyncio.run(main())
        [prompt] = model.prompts
        kinds = [part["type"] for part in prompt.body["messages"][-1]["content"]]

        assert kinds == ["text", "image_url"]

    @pytest.mark.parametrize(
        ("message", "told"),
        [
            ([], "expected at least one item"),
            (3, "expected a text, a UserMessage or a list"),
            (["look", 3], "item 2: expected a text, a Path, bytes"),
            (["look", Path("no") / "such.png"], r"item 2: expected a file at no.such\.png, found none"),
        ],
    )
    def test_a_message_that_cannot_be_sent_is_named_and_writes_nothing(
        self, talk: Conversation, message: Any, told: str
    ) -> None:
        with pytest.raises(CallerError, match=told):
            run(Team([agent("Hi")]).ask(talk, message))

        assert (len(talk), len(talk.log.blobs)) == (0, 0)

    def test_a_message_with_a_picture_that_is_cut_off_anywhere_is_said_once(self, tmp_path: Path) -> None:
        def begin(log: stenolog.Log) -> None:
            run(Team([agent("I see.")]).run_to_end(log["demo"], ["look", PNG], id="m1"))

        for point in crash_points(begin, tmp_path):
            with opened(point.path) as talk:
                result = run(Team([agent("I see.")]).run_to_end(talk, ["look", PNG], id="m1"))
                said = [entry for entry in talk if isinstance(entry.event, UserMessage)]

            assert (result.answer, result.why, len(said)) == ("I see.", "rest", 1), point.when


async def stop_at(team: Team, talk: Conversation, piece: int, *said: str) -> None:
    """Stop a run at a piece of its answer, or at the message if that is 0."""
    running, heard = team.run(talk, *said), 0
    async for happened in running:
        heard += isinstance(happened, StreamDelta)
        if heard >= piece:
            break
    await running.aclose()


class TestStops:
    """A program that stops listening."""

    def test_a_stop_before_the_first_word_records_nothing(self, talk: Conversation) -> None:
        begun = asyncio.Event()

        async def main() -> None:
            working = asyncio.create_task(Team([Agent("coder", llm=model)]).run_to_end(talk, "Count"))
            await begun.wait()
            working.cancel()
            await asyncio.wait({working})

        def answer(_: ModelRequest) -> str:
            begun.set()
            return "one two"

        model = Scripted(answer, pause=60)
        run(main())

        assert [entry.event.kind for entry in talk] == ["mode_switch", "user_message"]
        assert talk.log.claims() == []
        assert ended(Team([agent("one")]), talk).answer == "one"

    def test_a_stop_within_an_answer_keeps_its_text_and_is_no_error(self, talk: Conversation) -> None:
        team = Team([Agent("coder", llm=Scripted("one two three", "one", piece=4, pause=0.02))])
        run(stop_at(team, talk, 1, "Count"))
        stopped = talk[-1].event
        result = ended(team, talk)
        kinds = [item.kind for item in talk.timeline()]

        assert isinstance(stopped, stenolog.LlmError)
        assert (stopped.text, stopped.attempt) == ("one ", 0)
        assert (result.answer, result.why, result.error) == ("one", "rest", None)
        assert kinds == ["mode", "message", "message", "message"]
        assert talk.timeline()[2].detail == "stopped here"
        assert (talk.fold(usage).total.failed, talk.fold(usage).total.retries) == (0, 0)

    def test_a_run_that_is_stopped_over_and_over_is_tried_again_each_time(self, talk: Conversation) -> None:
        team = Team([Agent("coder", llm=Scripted("one two", pause=0.02, piece=4, endless=True))])
        for _ in range(6):
            run(stop_at(team, talk, 1, *([] if len(talk) else ["Count"])))

        assert ended(team, talk).answer == "one two"
        assert {entry.event.attempt for entry in talk if isinstance(entry.event, stenolog.LlmError)} == {0}

    def test_a_run_that_was_stopped_is_replayed_as_it_was(self, talk: Conversation) -> None:
        team = Team([Agent("coder", llm=Scripted("one two three", "one", piece=4, pause=0.02))])
        run(stop_at(team, talk, 1, "Count"))
        ended(team, talk)
        again = talk.log["again"]
        ended(Team([Replay(talk).agent("coder")]), again, "Count")

        assert [entry.event.kind for entry in again] == [entry.event.kind for entry in talk]
        assert errors(again)[0].category == "cancelled"

"""Whatever a model gives: an honest event or a clear error, and a lane that can go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, Event, LlmError, Team, TextPart, ToolCall, ToolResult
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.domain.errors import ModelError
from stenolog.engine import Agent, StreamDelta
from stenolog.models import Model, ModelRequest, ModelResponse, ResponseDelta, Scripted
from stenolog.tools import tool
from tests.engine.given import Clock, call, opened, run, run_team, streamed
from tests.requests.judging import HERE, MODELS, faults

HALF = "\ud83d"
"""Half a character, as a stream may end with."""
BIG = 10_000_000


@tool
def note(text: str = "") -> str:
    """Note it."""
    return f"noted {len(text)}"


class SpeechlessError(Exception):
    """An error that cannot even be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


WELL = ResponseDelta(0, "text", "well"), ModelResponse((TextPart(text="well"),))


class Streams(Model):
    """Streams whatever it was given, once; then it says that all is well."""

    provider = "streams"
    name = "streams"

    def __init__(self, *pieces: Any) -> None:
        self.pieces: tuple[Any, ...] | None = pieces

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        pieces, self.pieces = self.pieces, None
        for piece in WELL if pieces is None else pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


def events(conversation: Conversation) -> list[Event]:
    """Return the events of an agent and its tools, once the log is sound and the next request valid."""
    assert verify(conversation.log).ok
    assert [
        proof.outcome for _, proofs in prove(conversation) for proof in proofs if proof.outcome != "same"
    ] == []
    for api in MODELS if HERE else ():
        assert [*faults(api, conversation.request("coder", api=api))] == []
    return [
        entry.event
        for entry in conversation.entries()
        if isinstance(entry.event, AssistantMessage | ToolResult | LlmError)
    ]


def answered(path: Path, model: Model) -> list[Event]:
    """Return the events of a message to a coder with that model, and of a second one, which succeeds."""
    clock = Clock()
    agent = Agent("coder", llm=model, tools=[note])
    team = Team([agent], world=clock.world)
    with opened(path / "t.db" if path.is_dir() else path, clock) as conversation:
        run(run_team(team, conversation, "Go"))
        assert conversation.state().lane("coder").status in ("idle", "failed")
        made = events(conversation)
        run(run_team(Team([Agent("coder", llm=Scripted("Here I am."))]), conversation, "Are you there?"))
        assert conversation.state().lane("coder").status == "idle"
        assert texts(events(conversation))[-1] == "Here I am."
    return made


def texts(made: list[Event]) -> list[str]:
    return [event.text for event in made if isinstance(event, AssistantMessage)]


def results(made: list[Event]) -> list[str]:
    return [event.text for event in made if isinstance(event, ToolResult)]


def errors(made: list[Event]) -> list[tuple[str, str]]:
    return [(event.category, event.text) for event in made if isinstance(event, LlmError)]


class TestCalls:
    """Calls that no tool can take as they are."""

    def test_two_calls_of_one_id_each_have_their_result(self, tmp_path: Path) -> None:
        model = Scripted([call("note", "c1", '{"text": "a"}'), call("note", "c1", '{"text": "bb"}')], "Done.")

        made = answered(tmp_path, model)

        assert results(made) == ["noted 1", "noted 2"]
        refs = [event.call.index for event in made if isinstance(event, ToolResult) and event.call]
        assert sorted(refs) == [0, 1]
        assert texts(made)[-1] == "Done."

    def test_an_id_that_comes_again_in_a_later_answer_is_another_call(self, tmp_path: Path) -> None:
        model = Scripted(call("note", "c1", '{"text": "a"}'), call("note", "c1", '{"text": "bb"}'), "Done.")

        made = answered(tmp_path, model)

        assert results(made) == ["noted 1", "noted 2"]
        assert texts(made)[-1] == "Done."

    @pytest.mark.parametrize("id", ["", " ", "a" * 10_000, "ü\n\x00"])
    def test_any_id_has_its_result(self, id: str, tmp_path: Path) -> None:
        made = answered(tmp_path, Scripted(call("note", id), "Done."))

        assert results(made) == ["noted 0"]
        assert texts(made)[-1] == "Done."

    @pytest.mark.parametrize("name", ["nobody", "", "note ", "x" * 10_000, "../note\x00"])
    def test_a_tool_that_is_not_there_is_a_result_that_says_so(self, name: str, tmp_path: Path) -> None:
        made = answered(tmp_path, Scripted(call(name), "Done."))

        assert [text[:16] for text in results(made)] == ["there is no tool"]
        assert texts(made)[-1] == "Done."

    @pytest.mark.parametrize(
        "arguments", ["", "{", "[]", "null", '{"text": 5}', '{"text": "\\ud83d"}', "\x00"]
    )
    def test_arguments_that_cannot_be_read_are_a_result_or_are_read(
        self, arguments: str, tmp_path: Path
    ) -> None:
        made = answered(tmp_path, Scripted(call("note", "c1", arguments), "Done."))

        assert len(results(made)) == 1
        assert texts(made)[-1] == "Done."

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [(json.dumps({"text": "x" * BIG}), f"noted {BIG}"), ("x" * BIG, "")],
        ids=["JSON", "garbage"],
    )
    def test_ten_megabytes_of_arguments_are_read(self, arguments: str, expected: str, tmp_path: Path) -> None:
        made = answered(tmp_path, Scripted(call("note", "c1", arguments), "Done."))

        first = made[0]
        assert isinstance(first, AssistantMessage)
        assert first.tool_calls[0].arguments == arguments
        assert [text[: len(expected)] for text in results(made)] == [expected]
        assert texts(made)[-1] == "Done."

    def test_a_result_that_no_log_can_hold_is_an_error_that_says_so(self, tmp_path: Path) -> None:
        @tool(name="note")
        def halved() -> str:
            """Give half a character."""
            return f"a {HALF}"

        with opened(tmp_path / "t.db") as conversation:
            agent = Agent("coder", llm=Scripted(call("note"), "Done."), tools=[halved])
            run(run_team(Team([agent]), conversation, "Go"))
            made = events(conversation)

        assert len(results(made)) == 1
        assert texts(made)[-1] == "Done."


class TestStreams:
    """Streams of garbage."""

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ((), "nothing in it"),
            ((ModelResponse(()),), "nothing in it"),
            ((ModelResponse((TextPart(text=""),)),), "nothing in it"),
            ((ModelResponse((TextPart(text=" \n"),)),), "nothing in it"),
            ((ResponseDelta(0, "text", "I think"),), "without an answer"),
            ((None,), "expected ResponseDelta, Progress or ModelResponse"),
            (("text",), "expected ResponseDelta, Progress or ModelResponse"),
            ((ResponseDelta(0, "text", None),), "expected ResponseDelta, Progress or ModelResponse"),  # type: ignore[arg-type]
            ((ResponseDelta("x", "text", "a"),), "expected ResponseDelta, Progress or ModelResponse"),  # type: ignore[arg-type]
            ((ModelResponse((TextPart(text=HALF),)),), "surrogates"),
            ((ModelResponse((ToolCall(id=HALF, name=HALF, arguments=HALF),)),), "surrogates"),
            ((ModelResponse(("text",)),), ""),  # type: ignore[arg-type]
            ((ModelResponse(None),), ""),  # type: ignore[arg-type]
            ((ModelResponse((TextPart(text="a"),), model=3),), ""),  # type: ignore[arg-type]
        ],
        ids=repr,
    )
    def test_what_is_no_answer_is_an_error_that_says_so_and_is_tried_again_once_at_most(
        self, answer: tuple[Any, ...], why: str, tmp_path: Path
    ) -> None:
        made = answered(tmp_path, Streams(*answer) if answer else Streams(ModelResponse(())))

        first = made[0]
        assert isinstance(first, LlmError)
        assert first.category in ("invalid_response", "other")
        assert why in first.message
        assert texts(made) == (["well"] if first.retry_at else [])

    def test_an_answer_with_nothing_in_it_twice_leaves_the_lane_to_a_person(self, tmp_path: Path) -> None:
        made = answered(tmp_path, Scripted("", " ", "never asked"))

        assert [category for category, _ in errors(made)] == ["invalid_response"] * 2
        assert texts(made) == []

    @pytest.mark.parametrize(
        "pieces",
        [
            (ResponseDelta(0, "text", HALF), ResponseDelta(0, "text", "\ude00")),
            (ResponseDelta(0, "text", ""), ResponseDelta(0, "text", "")),
            (
                ResponseDelta(-1, "text", "a"),
                ResponseDelta(10**12, "text", "b"),
                ResponseDelta(3, "reasoning", "c"),
            ),
            (
                ResponseDelta(0, "text", "a"),
                ResponseDelta(0, "tool_call", "{}", "c1", "note"),
                ResponseDelta(0, "reasoning", "b"),
            ),
            (ResponseDelta(0, "tool_call", HALF, HALF, HALF),),
            (ResponseDelta(0, "song", "la"),),  # type: ignore[arg-type]
            (ResponseDelta(0, "text", "\x00\x1b[31m"),),
        ],
        ids=repr,
    )
    def test_pieces_of_any_kind_are_kept_as_well_as_can_be(
        self, pieces: tuple[ResponseDelta, ...], tmp_path: Path
    ) -> None:
        whole = answered(tmp_path / "whole.db", Streams(*pieces, ModelResponse((TextPart(text="whole"),))))
        cut = answered(tmp_path / "cut.db", Streams(*pieces, ModelError("network", "cut off")))

        assert texts(whole) == ["whole"]
        assert errors(cut)[0][0] == "network"
        assert texts(cut) == ["well"]

    def test_halves_of_a_character_in_two_pieces_are_one(self, tmp_path: Path) -> None:
        pieces = ResponseDelta(0, "text", f"a {HALF}"), ResponseDelta(0, "text", "\ude00")

        made = answered(tmp_path, Streams(*pieces, ModelError("network", "cut off")))

        assert errors(made) == [("network", "a \N{GRINNING FACE}")]

    def test_a_piece_of_garbage_reaches_whoever_listens_as_it_came(self, tmp_path: Path) -> None:
        model = Streams(
            ResponseDelta(7, "text", ""), ResponseDelta(7, "text", "a"), ModelResponse((TextPart(text="a"),))
        )
        with opened(tmp_path / "t.db") as conversation:
            told = run(streamed(Team([Agent("coder", llm=model)]), conversation, "Go"))

        assert told == [StreamDelta("coder", 2, "", part=7), StreamDelta("coder", 2, "a", part=7)]

    def test_what_comes_behind_an_answer_does_not_count(self, tmp_path: Path) -> None:
        made = answered(
            tmp_path, Streams(ModelResponse((TextPart(text="a"),)), ModelResponse((TextPart(text="b"),)))
        )

        assert texts(made) == ["a"]

    @pytest.mark.parametrize(
        "error",
        [
            asyncio.CancelledError(),
            RuntimeError("x" * 10**6),
            RuntimeError(HALF),
            SpeechlessError(),
            SystemExit(3),
            StopAsyncIteration(),
            BaseExceptionGroup("two", [KeyError("a"), asyncio.CancelledError()]),
            ModelError("weird", "busy"),
            ModelError(None, None),  # type: ignore[arg-type]
            ModelError("other", HALF),
        ],
        ids=[
            "cancelled",
            "long",
            "half",
            "speechless",
            "exit",
            "stop",
            "group",
            "category",
            "None",
            "half two",
        ],
    )
    def test_what_a_model_raises_is_an_error_of_bounded_length(
        self, error: BaseException, tmp_path: Path
    ) -> None:
        made = answered(tmp_path, Streams(ResponseDelta(0, "text", "half"), error))

        assert errors(made) == [("other", "half")]
        assert all(len(event.message) <= 2_000 for event in made if isinstance(event, LlmError))

    def test_of_errors_in_a_group_each_is_told(self, tmp_path: Path) -> None:
        group = ExceptionGroup("several", [ValueError("one"), ExceptionGroup("more", [KeyError("two")])])

        [error] = [each for each in answered(tmp_path, Streams(group)) if isinstance(each, LlmError)]

        assert error.message == "ValueError: one\nKeyError: 'two'"

    @pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, "soon"], ids=str)
    def test_a_wait_that_nobody_can_wait_is_left_out(self, seconds: Any, tmp_path: Path) -> None:
        made = answered(tmp_path, Streams(ModelError("overloaded", "busy", retry_after=seconds)))

        assert errors(made) == [("overloaded", "")]
        assert texts(made) == ["well"]


class TestCards:
    """An agent that nobody can ask."""

    @pytest.mark.parametrize(
        "llm", [None, Scripted("a", name="")], ids=["no model", "a model without a name"]
    )
    def test_an_agent_without_a_model_is_an_error_that_says_so(
        self, llm: Model | None, tmp_path: Path
    ) -> None:
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(Team([Agent("coder", llm=llm)]), conversation, "Go"))
            made = [entry.event for entry in conversation.entries()][-1]
            status = conversation.state().lane("coder").status

        assert isinstance(made, LlmError)
        assert (made.category, made.message) == ("invalid_request", "agent 'coder' has no model")
        assert status == "failed"

    def test_another_lane_works_on_beside_it(self, tmp_path: Path) -> None:
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(Team([Agent("mute"), Agent("coder", llm=Scripted("Hello."))]), conversation, "Go"))

            assert texts([entry.event for entry in conversation.entries()]) == ["Hello."]
            assert conversation.state().lane("coder").status == "idle"

"""Tokens that a provider has counted are in the log, however the call ends, and once."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from stenolog import AssistantMessage, LlmError, Team, TextPart, ToolCall
from stenolog.domain.lanes.limits import Limits
from stenolog.engine import Agent, RetryPolicy
from stenolog.events import Usage
from stenolog.models import ModelResponse, Progress, ResponseDelta, Timeouts
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.views.usage import usage as used
from tests.command_line import run as stenolog
from tests.engine.given import Clock, opened, run, run_team
from tests.llms.api import TOKENS, Api
from tests.llms.apis import CALLS, GENERATE, every
from tests.llms.listening import ask, prompt, streamed
from tests.llms.server import Reply, Server, sse

HELLO = TextPart(text="Hello there, it's me.")
NAMED = "the-model-of-today"
NO_RETRIES = RetryPolicy(attempts={})
TWICE = RetryPolicy(attempts={"network": 2})
NO_LIMITS = Limits()


def meant(api: Api) -> ModelResponse:
    return api.answer(HELLO)._replace(model=NAMED)


def whole(api: Api) -> list[bytes]:
    return list(api.frames(meant(api)))


def begun(api: Api) -> list[bytes]:
    """Return the frames of an answer up to where the usage has been told."""
    return whole(api)[: api.before]


def named(api: Api) -> str:
    """Return the name of the model that an answer says."""
    return NAMED if api.says_model else api.name


def asked(
    server: Server, path: Path, api: Api, retries: RetryPolicy = TWICE, limits: Limits = NO_LIMITS
) -> list[AssistantMessage | LlmError]:
    """Return the events in the log after "Go" to a team of one agent, whose model is the server's."""
    clock, timeouts = Clock(), Timeouts(first_token=0.5, idle=0.5)
    coder = Agent("coder", llm=api.at(server, timeouts=timeouts), retries=retries, limits=limits)
    with opened(path / "talks.db", clock) as conversation:
        run(run_team(Team([coder], world=clock.world), conversation, "Go"))
        return [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage | LlmError)]


def failure_of(server: Server, path: Path, api: Api) -> LlmError:
    """Return the one error that is in the log when the agent is asked once."""
    (error,) = asked(server, path, api, NO_RETRIES)
    assert isinstance(error, LlmError)
    return error


@every
@pytest.mark.parametrize(("end", "category"), [("cut", "network"), ("hang", "timeout")])
def test_a_call_that_breaks_off_has_the_usage_that_was_told_before(
    server: Server, api: Api, end: Literal["cut", "hang"], category: str, tmp_path: Path
) -> None:
    server.add(Reply(begun(api), end=end))

    error = failure_of(server, tmp_path, api)

    assert (error.category, error.usage, error.model) == (category, api.told, named(api))


@every
def test_an_error_in_mid_stream_has_the_usage_that_was_told_before(
    server: Server, api: Api, tmp_path: Path
) -> None:
    server.add(Reply([*whole(api)[: api.before or -1], api.broke[0].frame]))

    error = failure_of(server, tmp_path, api)

    assert (error.category, error.usage, error.model) == ("overloaded", api.told, named(api))
    assert error.parts


@every
def test_an_answer_that_was_kept_back_has_its_usage(server: Server, api: Api, tmp_path: Path) -> None:
    server.add(Reply(api.frames(api.answer(finish_reason=api.kept_back))))

    error = failure_of(server, tmp_path, api)

    assert (error.category, error.usage) == ("refused", api.tokens)


def test_a_prompt_that_gemini_blocks_has_its_usage(server: Server, tmp_path: Path) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}
    server.add(Reply([sse(blocked)]))

    error = failure_of(server, tmp_path, GENERATE)

    assert (error.category, error.usage) == ("refused", Usage(input=7))


@every
def test_a_call_that_failed_before_any_usage_has_none(server: Server, api: Api, tmp_path: Path) -> None:
    server.add(Reply([api.broke[-1].frame]))

    assert failure_of(server, tmp_path, api).usage is None


@every
def test_a_limit_counts_what_a_failed_call_has_used(server: Server, api: Api, tmp_path: Path) -> None:
    server.add(Reply(begun(api), end="cut"), Reply(whole(api)))

    ends = asked(server, tmp_path, api, limits=Limits(max_tokens=100))

    assert [isinstance(end, LlmError) and end.category for end in ends] == ["network", "budget"]
    assert len(server.received) == 1


@every
def test_stats_count_a_failed_call_and_the_answer_after_it_once_each(
    server: Server, api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add(Reply(begun(api), end="cut"), Reply(whole(api)))

    ends = asked(server, tmp_path, api)
    stenolog(("cost", "demo", "--db", str(tmp_path / "talks.db"), "--json"))

    assert [(end.kind, end.usage) for end in ends] == [
        ("llm_error", api.told),
        ("assistant_message", api.tokens),
    ]
    tokens = json.loads(capsys.readouterr().out)["data"]["total"]["tokens"]
    assert tokens["input"] == TOKENS.input + api.told.input
    assert tokens["output"] == TOKENS.output + api.told.output


@every
def test_the_usage_of_an_answer_is_counted_once(server: Server, api: Api, tmp_path: Path) -> None:
    server.add(Reply(whole(api)))

    asked(server, tmp_path, api)

    with opened(tmp_path / "talks.db") as conversation:
        tokens = used(conversation.entries()).total.sum
    assert (tokens.input, tokens.output) == (TOKENS.input, TOKENS.output)


@every
async def test_usage_is_told_again_only_when_it_has_changed(server: Server, api: Api) -> None:
    server.add(Reply(whole(api)))

    model = api.at(server)
    async with aclosing(model.stream(prompt(model))) as pieces:
        found = [piece.usage async for piece in pieces if isinstance(piece, Progress)]
    await model.close()

    assert found[-1] == api.tokens
    assert len(found) == (1 if api.told == api.tokens else 2)


# What holds for the answers of every model, through its real SDK from a server that speaks its API.


@every
def test_an_answer_streams_in_pieces_and_comes_whole_at_the_end(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Hello there, it's me."))
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert [piece.text for piece in said] == ["Hello", " ther", "e, it", "'s me", "."]
    assert {piece.part for piece in said} == {0}


@every
def test_parallel_calls_keep_their_raw_arguments(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Two things."), *CALLS)
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [
        ResponseDelta(0, "text", "Two things."),
        ResponseDelta(1, "tool_call", '{"cmd":"ls -l"}', "c1", "shell"),
        ResponseDelta(2, "tool_call", "{}", "c2", "shell"),
    ]


@every
def test_calls_of_one_id_stay_calls_of_their_own(server: Server, api: Api) -> None:
    answer = api.answer(CALLS[0], replace(CALLS[1], id="c1"), CALLS[0])
    server.add(Reply(api.frames(answer)))

    assert ask(api.at(server)).answer == answer


@every
def test_arguments_of_10_mb_come_whole(server: Server, api: Api) -> None:
    arguments = compact({"cmd": "x" * 10_000_000})
    answer = api.answer(ToolCall(id="c1", name="shell", arguments=arguments))
    server.add(Reply(api.frames(answer, 100_000)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert "".join(piece.text for piece in said) == arguments


@every
def test_a_character_cut_in_two_is_one_again_and_half_a_character_is_marked(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="so \ud83d\ude00 \ud83d!"), ToolCall(id="c\udc00", name="shell"))
    server.add(Reply(api.frames(answer, 1)))

    said, whole = ask(api.at(server))

    assert whole.parts == (
        TextPart(text="so \N{GRINNING FACE} \ufffd!"),
        ToolCall(id="c\ufffd", name="shell"),
    )
    assert streamed(said)[0].text == "so \N{GRINNING FACE} \ufffd!"

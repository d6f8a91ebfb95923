"""Tokens that a provider has counted are in the log, however the call ends, and once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from stenolog import AssistantMessage, LlmError, Team, TextPart
from stenolog.apps.cli import run as stenolog
from stenolog.domain.limits import Limits
from stenolog.engine import Agent, RetryPolicy
from stenolog.events import Usage
from stenolog.models import ModelResponse, Progress, Timeouts
from stenolog.projections.usage import usage as used
from tests.engine.given import Clock, opened, run, worked
from tests.llms import wire_anthropic, wire_gemini, wire_openai_responses
from tests.llms.api import TOKENS, Api
from tests.llms.apis import CHAT, GENERATE, MESSAGES, RESPONSES, every
from tests.llms.listening import prompt
from tests.llms.server import Reply, Server, sse

HELLO = TextPart(text="Hello there, it's me.")
NAMED = "the-model-of-today"
NO_RETRIES = RetryPolicy(attempts={})
TWICE = RetryPolicy(attempts={"network": 2})
NO_LIMITS = Limits()


class Broken(NamedTuple):
    """Frames of an answer that is not whole, the usage told in them, and the frames of an error."""

    api: Api
    frames: list[bytes]
    usage: Usage
    error: list[bytes]


def meant(api: Api) -> ModelResponse:
    return api.answer(HELLO)._replace(model=NAMED)


def whole(api: Api) -> list[bytes]:
    return list(api.frames(meant(api)))


def failed(counted: Usage) -> bytes:
    """Return the end of a response of OpenAI's that failed, with its usage."""
    error = {"code": "server_error", "message": "Overloaded"}
    told = {"status": "failed", "model": NAMED, "usage": wire_openai_responses.usage(counted)}
    return wire_openai_responses.event("failed", response=told | {"error": error})


def told_by_gemini() -> Iterator[bytes]:
    """Yield two chunks, of which the second counts more."""
    for output in (25, 30):
        counted = wire_gemini.usage(Usage(input=120, output=output, cache_read=100, reasoning=20))
        yield sse(wire_gemini.chunk(NAMED, {"text": "Hello"}, counted=counted))


OVERLOADED = sse({"error": {"code": 503, "message": "Overloaded"}})
BROKEN = {
    "OpenAIChat": Broken(CHAT, whole(CHAT)[:-1], TOKENS, [OVERLOADED]),
    "OpenAIResponses": Broken(RESPONSES, whole(RESPONSES), TOKENS, []),
    "Anthropic": Broken(
        MESSAGES,
        whole(MESSAGES)[:4],
        Usage(input=120, output=1, cache_read=100, reasoning=20),
        [wire_anthropic.event(wire_anthropic.error("overloaded_error", "Overloaded"))],
    ),
    "Gemini": Broken(GENERATE, [*told_by_gemini()], TOKENS, [OVERLOADED]),
}
each = pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())


def asked(
    server: Server, path: Path, api: Api, retries: RetryPolicy = TWICE, limits: Limits = NO_LIMITS
) -> list[AssistantMessage | LlmError]:
    """Return the events in the log after "Go" to a team of one agent, whose model is the server's."""
    clock, timeouts = Clock(), Timeouts(first_token=0.5, idle=0.5)
    coder = Agent("coder", llm=api.at(server, timeouts=timeouts), retries=retries, limits=limits)
    with opened(path / "talks.db", clock) as conversation:
        run(worked(Team([coder], world=clock.world), conversation, "Go"))
        return [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage | LlmError)]


def failure_of(server: Server, path: Path, api: Api) -> LlmError:
    """Return the one error that is in the log when the agent is asked once."""
    (error,) = asked(server, path, api, NO_RETRIES)
    assert isinstance(error, LlmError)
    return error


@each
@pytest.mark.parametrize(("end", "category"), [("cut", "network"), ("hang", "timeout")])
def test_a_call_that_breaks_off_has_the_usage_that_was_told_before(
    server: Server, broken: Broken, end: Literal["cut", "hang"], category: str, tmp_path: Path
) -> None:
    server.add(Reply(broken.frames, end=end))

    error = failure_of(server, tmp_path, broken.api)

    assert (error.category, error.usage, error.model) == (category, broken.usage, NAMED)


@each
def test_an_error_in_mid_stream_has_the_usage_that_was_told_before(
    server: Server, broken: Broken, tmp_path: Path
) -> None:
    frames = [*broken.frames, *broken.error] if broken.error else [*broken.frames[:4], failed(TOKENS)]
    server.add(Reply(frames))

    error = failure_of(server, tmp_path, broken.api)

    assert (error.category, error.usage, error.model) == ("overloaded", broken.usage, NAMED)
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


@each
def test_a_call_that_failed_before_any_usage_has_none(server: Server, broken: Broken, tmp_path: Path) -> None:
    server.add(Reply(broken.error or [OVERLOADED]))

    assert failure_of(server, tmp_path, broken.api).usage is None


@each
def test_a_limit_counts_what_a_failed_call_has_used(server: Server, broken: Broken, tmp_path: Path) -> None:
    server.add(Reply(broken.frames, end="cut"), Reply(whole(broken.api)))

    ends = asked(server, tmp_path, broken.api, limits=Limits(max_tokens=100))

    assert [isinstance(end, LlmError) and end.category for end in ends] == ["network", "budget"]
    assert len(server.received) == 1


@each
def test_stats_count_a_failed_call_and_the_answer_after_it_once_each(
    server: Server, broken: Broken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add(Reply(broken.frames, end="cut"), Reply(whole(broken.api)))

    ends = asked(server, tmp_path, broken.api)
    stenolog(("cost", "demo", "--db", str(tmp_path / "talks.db"), "--json"))

    assert [(end.kind, end.usage) for end in ends] == [
        ("llm_error", broken.usage),
        ("assistant_message", TOKENS),
    ]
    tokens = json.loads(capsys.readouterr().out)["data"]["total"]["tokens"]
    assert tokens["input"] == TOKENS.input + broken.usage.input
    assert tokens["output"] == TOKENS.output + broken.usage.output


@every
def test_the_usage_of_an_answer_is_counted_once(server: Server, api: Api, tmp_path: Path) -> None:
    server.add(Reply(whole(api)))

    asked(server, tmp_path, api)

    with opened(tmp_path / "talks.db") as conversation:
        tokens = used(conversation.entries()).total.sum
    assert (tokens.input, tokens.output) == (TOKENS.input, TOKENS.output)


@every
def test_usage_is_told_again_only_when_it_has_changed(server: Server, api: Api) -> None:
    server.add(Reply(whole(api)))

    async def told() -> list[Usage | None]:
        model = api.at(server)
        async with aclosing(model.stream(prompt(model))) as pieces:
            found = [piece.usage async for piece in pieces if isinstance(piece, Progress)]
        await model.close()
        return found

    found = asyncio.run(told())

    assert found[-1] == api.tokens
    assert len(found) == (2 if api is MESSAGES else 1)

"""Whatever streams is the answer that was meant, or a failure in a category, and can be kept in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, TextPart, ToolCall
from stenolog.adapters.llms import anthropic, gemini
from stenolog.adapters.llms.openai import OpenAIChat, OpenAIResponses
from stenolog.domain.codec import REGISTRY
from stenolog.domain.errors import ModelError
from stenolog.models import ModelResponse, ResponseDelta
from stenolog.parts import ProviderPart, ReasoningPart
from stenolog.projections.messages.body_digest import compact
from tests.llms.apis import CHAT, GENERATE, MESSAGES, RESPONSES, Api
from tests.llms.listening import streamed

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
WORDS = st.text(min_size=1, max_size=40).filter(str.strip)
NAMES = st.text("abc_1", min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY_TEXT, inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    ToolCall,
    id=NAMES,
    name=NAMES,
    arguments=st.dictionaries(NAMES, st.text(max_size=9), max_size=3).map(compact),
)
TEXTS = st.builds(TextPart, text=WORDS)


class Streamed(NamedTuple):
    """An API, what reads its events, and what its answers may consist of."""

    api: Api
    reading: Callable[[], Any]
    parts: st.SearchStrategy[list[Any]]

    def events(self, answer: ModelResponse, piece: int) -> list[Any]:
        """Return the events of an answer, as the SDK gives them."""
        found = [frame.decode().rpartition("data: ")[2] for frame in self.api.frames(answer, piece)]
        return [json.loads(data) for data in found if data.strip() != "[DONE]"]

    def read(self, events: list[Any]) -> tuple[list[ResponseDelta], ModelResponse]:
        """Return the deltas and the answer read from events."""
        reading = self.reading()
        said = [said for event in events for said in reading.read(event)]
        return said, reading.answer()


def signed(provider: str) -> st.SearchStrategy[ReasoningPart]:
    return st.builds(ReasoningPart, text=WORDS, provider=st.just(provider), signature=NAMES)


def several(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*kinds), max_size=4)


HIDDEN = st.builds(ReasoningPart, provider=st.just("anthropic"), encrypted=NAMES)
NEW = st.builds(
    ProviderPart,
    provider=st.just("anthropic"),
    model=st.just(MESSAGES.name),
    raw=st.dictionaries(NAMES, WORDS, max_size=2).map(lambda raw: compact({"type": "new", **raw})),
)
SIGNED_CALLS = st.tuples(signed("gemini"), CALLS).map(list) | CALLS.map(lambda call: [call])
STREAMS = {
    "OpenAIChat": Streamed(CHAT, lambda: OpenAIChat(CHAT.name).reader(), several(CALLS)),
    "OpenAIResponses": Streamed(
        RESPONSES, lambda: OpenAIResponses(RESPONSES.name).reader(), several(TEXTS, CALLS)
    ),
    "Anthropic": Streamed(
        MESSAGES, anthropic.AnthropicEvents, several(TEXTS, CALLS, signed("anthropic"), HIDDEN, NEW)
    ),
    "Gemini": Streamed(
        GENERATE,
        lambda: gemini.GeminiChunks(GENERATE.name),
        several(SIGNED_CALLS).map(lambda groups: [part for group in groups for part in group]),
    ),
}
each = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
SIZES = st.integers(1, 9)


@each
@given(data=st.data(), piece=SIZES)
def test_what_streams_in_pieces_is_the_answer_that_was_meant(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    parts = data.draw(stream.parts)
    meant = stream.api.answer(*parts, TextPart(text="Done."))

    said, answer = stream.read(stream.events(meant, piece))

    assert answer == meant
    assert [each.text for each in streamed(said)] == [
        part.arguments if isinstance(part, ToolCall) else part.text
        for part in meant.parts
        if isinstance(part, ToolCall) or (not isinstance(part, ProviderPart) and part.text)
    ]


@each
@given(data=st.data(), piece=SIZES)
def test_what_streams_damaged_is_an_answer_that_can_be_kept_or_a_failure(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    parts = data.draw(stream.parts)
    events = stream.events(stream.api.answer(*parts, TextPart(text="Done.")), piece)
    for _ in range(data.draw(st.integers(1, 4))):
        damage(events, data)

    came = outcome(stream, events)

    if isinstance(came, ModelResponse):
        fields = came._asdict()
        del fields["usage_is_total"]  # for the engine, which keeps the difference
        said = AssistantMessage(agent="coder", **fields)
        assert REGISTRY.load(*REGISTRY.dump(said)) == said
    else:
        assert came in ("invalid_response", "refused", "overloaded", "other")


def outcome(stream: Streamed, events: list[Any]) -> ModelResponse | str:
    """Return the answer, or the category of the failure."""
    try:
        return stream.read(events)[1]
    except ModelError as failed:
        return failed.category


def damage(events: list[Any], data: st.DataObject) -> None:
    """Put anything in the place of something, leave it out, or say it twice."""
    places = list(within(events))
    if not places:
        return
    holder, key = data.draw(st.sampled_from(places))
    match data.draw(st.sampled_from(["other", "gone", "twice"])):
        case "other":
            holder[key] = data.draw(JSON)
        case "gone":
            del holder[key]
        case "twice" if isinstance(holder, list):
            holder.insert(key, holder[key])


def within(value: Any) -> Any:
    """Yield every place in a value, as its container and the key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from within(value[key])

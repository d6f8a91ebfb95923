"""Laws of every format's stream: whole, cut or damaged, it is the answer that was meant, or less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, TextPart, ToolCall
from stenolog.adapters.recorder.answers import Answered, answer_of
from stenolog.adapters.recorder.exchange import RecordedExchange
from stenolog.domain.codec import REGISTRY
from stenolog.errors import ModelError
from stenolog.events import Usage
from stenolog.importers import events_from
from stenolog.models import ModelResponse, ResponseDelta, StreamReader, answer_from, recording
from stenolog.parts import ProviderPart, ReasoningPart, RefusalPart
from stenolog.projections.formats import FORMATS, stream_of
from stenolog.projections.formats.deltas import drafted_parts
from stenolog.projections.messages.body_digest import compact
from tests.formats.reading import asked
from tests.llms.apis import CHAT, GENERATE, MESSAGES, RESPONSES, TOKENS, Api
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
CUSTOM = st.builds(ToolCall, id=NAMES, name=NAMES, arguments=WORDS, form=st.just("custom"))
TEXTS = st.builds(TextPart, text=WORDS)
REFUSALS = st.builds(RefusalPart, text=WORDS)
DONE = TextPart(text="Done.")
WHEN = datetime(2026, 1, 5, tzinfo=UTC)
Parts = st.SearchStrategy[list[Any]]


class Streamed(NamedTuple):
    """A format's stream: the API that speaks it, what answers may consist of, and why they may end."""

    api: Api
    parts: Parts
    ends: tuple[str, ...]

    def answers(self) -> st.SearchStrategy[ModelResponse]:
        """Return any answers of this API."""
        usage = st.sampled_from([None, TOKENS, Usage(input=7, output=2)])
        fields = st.fixed_dictionaries({"finish_reason": st.sampled_from(self.ends), "usage": usage})
        return st.builds(lambda parts, given: self.api.answer(*parts, **given), self.parts, fields)

    def events(self, answer: ModelResponse, piece: int) -> list[Any]:
        """Return the events of an answer, as the SDK gives them."""
        found = [frame.decode().rpartition("data: ")[2] for frame in self.api.frames(answer, piece)]
        return [json.loads(data) for data in found if data.strip() != "[DONE]"]

    def reader(self) -> StreamReader:
        """Return what reads the events."""
        return stream_of(self.name)

    def read(self, events: list[Any]) -> tuple[list[ResponseDelta], ModelResponse]:
        """Return the deltas and the answer read from events."""
        reading = self.reader()
        said = [said for event in events for said in reading.read(event)]
        return said, reading.answer()

    def tapped(self, content: bytes, kind: str = "text/event-stream", reason: str = "") -> Answered:
        """Return what a tap reads from the bytes of an answer."""
        exchange = RecordedExchange("x1", WHEN, "POST", "/", "upstream", content=b"{}", reason=reason)
        exchange.status, exchange.answer_headers = 200, {"content-type": kind}
        exchange.answer += content
        return answer_of(self.name, exchange)

    @property
    def name(self) -> str:
        return str(self.api.model.api)  # type: ignore[attr-defined]


def signed(provider: str) -> st.SearchStrategy[ReasoningPart]:
    return st.builds(ReasoningPart, text=WORDS, provider=st.just(provider), signature=NAMES)


def opaque(kind: str, **fields: str) -> st.SearchStrategy[ProviderPart]:
    raw = st.dictionaries(NAMES, WORDS, max_size=2).map(lambda raw: compact({kind: "new", **raw}))
    return st.builds(ProviderPart, raw=raw, **{name: st.just(value) for name, value in fields.items()})


def several(*kinds: st.SearchStrategy[Any]) -> Parts:
    return st.lists(st.one_of(*kinds), max_size=4).map(lambda parts: [*parts, DONE])


def groups(*kinds: Parts) -> Parts:
    """Return lists of parts one after the other."""
    return st.tuples(*kinds).map(lambda found: [part for parts in found for part in parts])


def maybe(part: st.SearchStrategy[Any]) -> Parts:
    return st.lists(part, max_size=1)


HIDDEN = st.builds(ReasoningPart, provider=st.just("anthropic"), encrypted=NAMES)
UNSEEN = st.builds(ReasoningPart, provider=st.just("anthropic"), signature=NAMES)
SECTIONS = st.lists(st.text("ab \n", min_size=1, max_size=9).filter(str.strip).map(str.strip), max_size=3)
REASONED = st.builds(
    ReasoningPart,
    text=SECTIONS.map("\n\n".join).filter(lambda text: "\n\n\n" not in text),
    provider=st.just("openai"),
    id=NAMES,
    encrypted=NAMES,
)
OF_CHAT = groups(
    maybe(st.builds(ReasoningPart, text=WORDS, provider=st.just("openai"))),
    TEXTS.map(lambda part: [part]),
    maybe(REFUSALS),
    st.lists(CALLS | CUSTOM, max_size=3),
)
OF_GEMINI = st.lists(
    st.tuples(signed("gemini"), CALLS | TEXTS).map(list)
    | st.one_of(CALLS, opaque("x", provider="gemini", model=GENERATE.name)).map(lambda part: [part]),
    max_size=3,
).map(lambda found: [*(part for parts in found for part in parts), ToolCall(id="last", name="shell")])
STREAMED = {
    "openai-chat": Streamed(CHAT, OF_CHAT, ("stop", "length", "tool_calls", "content_filter")),
    "openai-responses": Streamed(
        RESPONSES,
        several(TEXTS, CALLS, REFUSALS, REASONED, opaque("type", provider="openai")),
        ("completed", "max_output_tokens", "content_filter"),
    ),
    "anthropic": Streamed(
        MESSAGES,
        several(
            TEXTS, CALLS, signed("anthropic"), UNSEEN, HIDDEN,
            opaque("type", provider="anthropic", model=MESSAGES.name),
        ),
        ("end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal", "new"),
    ),
    "gemini": Streamed(
        GENERATE, OF_GEMINI, ("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW_ONE")
    ),
}  # fmt: skip
each = pytest.mark.parametrize("stream", STREAMED.values(), ids=STREAMED.keys())
SIZES = st.integers(1, 9)


def test_every_format_with_a_stream_is_under_these_laws() -> None:
    assert STREAMED.keys() == {format.name for format in FORMATS.values() if format.stream}


@each
@given(data=st.data(), piece=SIZES)
def test_a_stream_in_any_pieces_is_the_answer_that_was_meant(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    meant = data.draw(stream.answers())

    said, answer = stream.read(stream.events(meant, piece))

    assert answer == meant
    assert [each.text for each in streamed(said)] == [*map(text_in, spoken(meant))]


@each
@given(data=st.data(), piece=SIZES)
def test_the_whole_answer_is_what_its_stream_adds_up_to(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    meant = data.draw(stream.answers())
    streaming, whole = stream.reader(), stream.reader()

    for event in stream.events(meant, piece):
        streaming.take(event)

    assert whole.read_answer(stream.api.whole(meant)) == streaming.answer() == meant
    assert (whole.id, whole.usage) == (streaming.id, streaming.usage)


@each
@given(data=st.data(), piece=SIZES)
def test_a_stream_that_is_cut_is_the_beginning_of_the_answer_and_no_answer(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    meant = data.draw(stream.answers())
    events = stream.events(meant, piece)
    content = b"".join(stream.api.frames(meant, piece))
    last = max(nth for nth, event in enumerate(events) if begins_end(event))
    cut = data.draw(st.integers(0, last - 1))
    byte = data.draw(st.integers(0, len(content)))
    reading = stream.reader()
    said = [said for event in events[:cut] for said in reading.read(event)]

    assert is_beginning(drafted_parts(said), meant)
    with pytest.raises(ModelError) as failed:
        reading.answer()
    assert failed.value.category == "invalid_response"
    came = stream.tapped(content[:byte], reason="client-closed")
    # All but the usage may have come: then it is an answer.
    if came.failure is None:
        assert came.parts == meant.parts
    else:
        assert is_beginning(came.parts, meant)
        assert came.failure.category == "cancelled"


def begins_end(event: dict[str, Any]) -> bool:
    """Return whether an event is one that an answer ends with."""
    choices = event.get("choices") or event.get("candidates") or [{}]
    ended = any(choice.get("finish_reason") or choice.get("finishReason") for choice in choices)
    kinds = ("message_stop", "response.completed", "response.incomplete")
    return ended or event.get("type") in kinds


def messages_in(api: str, whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a whole answer, as a program's history has them."""
    match api:
        case "openai-chat":
            return [whole["choices"][0]["message"]]
        case "openai-responses":
            return list(whole["output"])
        case "gemini":
            return [whole["candidates"][0]["content"]]
        case _:
            return [{"role": "assistant", "content": whole["content"]}]


@each
@given(data=st.data(), piece=SIZES)
def test_the_tap_an_sdk_and_a_file_give_the_same_answer(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    meant = data.draw(stream.answers())
    whole = stream.api.whole(meant)
    by_hand = recording(stream.events(meant, piece), agent="coder")
    for _ in by_hand:
        pass

    expected = AssistantMessage(
        agent="coder",
        parts=meant.parts,
        model=meant.model,
        finish_reason=meant.finish_reason,
        usage=meant.usage,
    )
    listed = events_from([asked(stream.name), *messages_in(stream.name, whole)], model=meant.model)
    answers = [event for event in listed if isinstance(event, AssistantMessage)]
    assert by_hand.answer() == answer_from(whole, agent="coder") == expected
    ids = [part.id for part in meant.parts if isinstance(part, ToolCall)]
    # Of an answer in items, each message is one of a list, and two calls of one id get two.
    if len(ids) == len({*ids}):
        assert tuple(part for event in answers for part in event.parts) == meant.parts
    for came in (
        stream.tapped(b"".join(stream.api.frames(meant, piece))),
        stream.tapped(json.dumps(whole).encode(), "application/json"),
    ):
        assert came[:4] == meant[:4]
        assert came.failure is None


@each
@given(data=st.data(), piece=SIZES)
def test_what_streams_damaged_is_an_answer_that_can_be_kept_or_a_failure(
    stream: Streamed, data: st.DataObject, piece: int
) -> None:
    events = stream.events(data.draw(stream.answers()), piece)
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


def text_in(part: Any) -> str:
    """Return what streams of a part: its text, or a call's arguments."""
    return str(part.arguments if isinstance(part, ToolCall) else part.text)


def spoken(answer: ModelResponse) -> list[Any]:
    """Return the parts that stream: calls, and all with a text."""
    shown = [part for part in answer.parts if not isinstance(part, ProviderPart)]
    return [part for part in shown if isinstance(part, ToolCall) or part.text]


def is_beginning(said: Any, meant: ModelResponse) -> bool:
    """Return whether parts are the beginning of an answer: all whole but for the last."""
    whole = [*map(text_in, spoken(meant))][: len(said)]
    *before, last = [*map(text_in, said)] or [""]
    return whole[:-1] == before and (whole or [""])[-1].startswith(last)


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


def within(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a value, as its container and the key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from within(value[key])

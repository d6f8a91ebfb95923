"""Laws of every format's stream: whole, cut or damaged, it is the answer that was meant, or less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, ToolCall
from stenolog.apps.tap.exchanges.answers import answer_of
from stenolog.apps.tap.exchanges.exchange import Answered, RecordedExchange
from stenolog.domain.codec import REGISTRY
from stenolog.errors import ModelError
from stenolog.events import Usage
from stenolog.importers import events_from
from stenolog.models import ModelResponse, ResponseDelta, StreamReader, answer_from, recording
from stenolog.parts import ProviderPart
from stenolog.projections.formats import stream_of
from stenolog.projections.formats.deltas import drafted_parts
from tests.llms.api import Api
from tests.llms.apis import APIS
from tests.llms.listening import streamed

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY_TEXT, inner, max_size=2),
    max_leaves=4,
)
WHEN = datetime(2026, 1, 5, tzinfo=UTC)


class Streamed(NamedTuple):
    """A format's stream, and the API that speaks it."""

    api: Api

    def answers(self) -> st.SearchStrategy[ModelResponse]:
        """Return any answers of this API."""
        usage = st.sampled_from([None, self.api.tokens, Usage(input=7, output=2)])
        fields = st.fixed_dictionaries({"finish_reason": st.sampled_from(self.api.ends), "usage": usage})
        model = self.api.name if self.api.says_model else ""
        return st.builds(
            lambda parts, given: self.api.answer(*parts, **given)._replace(model=model),
            self.api.parts,
            fields,
        )

    def events(self, answer: ModelResponse, piece: int) -> list[Any]:
        """Return the events of an answer, as the SDK gives them."""
        found = [frame.decode().rpartition("data: ")[2] for frame in self.api.frames(answer, piece)]
        return [json.loads(data) for data in found if data.strip() != "[DONE]"]

    def reader(self) -> StreamReader:
        """Return what reads the events."""
        return stream_of(self.name)

    def end(self, events: list[Any]) -> int:
        """Return the number of the event that an answer ends with."""
        reading = self.reader()
        for number, event in enumerate(events):
            reading.take(deepcopy(event))
            if reading.ended:
                return number
        raise AssertionError("it has no end")

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


STREAMED = {name: Streamed(api) for name, api in APIS.items()}
each = pytest.mark.parametrize("stream", STREAMED.values(), ids=STREAMED.keys())
SIZES = st.integers(1, 9)


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
    last = stream.end(events)
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
    listed = events_from([stream.api.asked, *stream.api.said(whole)], model=meant.model)
    answers = [event for event in listed if isinstance(event, AssistantMessage)]
    assert by_hand.answer() == answer_from(whole, agent="coder") == expected
    ids = [part.id for part in meant.parts if isinstance(part, ToolCall)]
    # Of an answer in items, each message is one of a list, and two calls of one id get two.
    if len(ids) == len({*ids}):
        assert tuple(part for event in answers for part in event.parts) == meant.parts
    frames = [*stream.api.frames(meant, piece)]
    for came, unread in (
        (stream.tapped(b"".join(frames)), ""),
        (stream.tapped(b"".join([frames[0], b'data: {"broken\n\n', *frames[1:]])), "1 broken event"),
        (stream.tapped(json.dumps(whole).encode(), "application/json"), ""),
    ):
        assert came[:4] == meant[:4]
        assert (came.failure, came.unread) == (None, unread)


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

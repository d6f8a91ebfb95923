"""What the log keeps of an outcome, and what a request and `conversation.outputs` show of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import stenolog
from stenolog import AssistantMessage, Conversation, Log, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.adapters.tools.base import Attachment, BaseTool, ToolOutput, Toolset
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.functions import as_runnables, opened, tool
from stenolog.adapters.tools.results import (
    LARGEST_META,
    ReadOutput,
    failure,
    media_of,
    outcome_of,
    result_of,
    truncate_output,
)
from stenolog.context import TruncateToolOutput
from stenolog.domain.errors import CallerError, ToolError
from stenolog.events import CallRef
from stenolog.parts import FilePart, ImagePart
from tests.tools.given import call, error, outcome, text

LARGE = "".join(f"line {n}, all is well\n" for n in range(230_000))


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as opened:
        yield opened


def kept(log: Log, found: ToolOutput, name: str = "pytest") -> ToolResult:
    return result_of(found, "c1", CallRef(entry="asked"), name, log.blobs.put, 12)


def test_everything_of_an_outcome_is_in_the_entry_in_its_order(log: Log) -> None:
    content = ("see", Attachment(b"png", "image/png"), "", Attachment(b"a,b", "text/csv", "a.csv"), "done")

    result = kept(log, ToolOutput(content, is_error=True, meta={"app": {"n": 1}}))

    assert result == ToolResult(
        call_id="c1",
        call=CallRef(entry="asked"),
        name="pytest",
        parts=[
            TextPart(text="see"),
            ImagePart(media_type="image/png", blob=log.blobs.put(b"png")),
            FilePart(name="a.csv", media_type="text/csv", blob=log.blobs.put(b"a,b")),
            TextPart(text="done"),
        ],
        is_error=True,
        duration_ms=12,
        meta={"app": {"n": 1}},
    )
    assert log.blobs[result.parts[1].blob] == b"png"  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [(), ("",)])
def test_a_tool_that_gave_nothing_leaves_a_result_without_parts(log: Log, content: tuple[str, ...]) -> None:
    assert kept(log, ToolOutput(content)).parts == ()


def test_up_to_64_kb_stand_in_the_entry_and_more_in_a_blob(log: Log) -> None:
    fits, over = "я" * 32_000, "я" * 32_001

    assert kept(log, ToolOutput((fits,))).text == fits
    assert not kept(log, ToolOutput((fits,))).blob
    shown = kept(log, ToolOutput((over,)))
    assert len(shown.text.encode()) < 2_000
    assert log.blobs[shown.blob].decode() == over


def test_what_read_output_gives_is_never_a_preview(log: Log) -> None:
    assert kept(log, ToolOutput(("я" * 40_000,)), name="read_output").text == "я" * 40_000


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "gemini", "plain"])
def test_a_result_of_5_mb_costs_a_request_about_400_tokens_and_is_there_whole(log: Log, api: str) -> None:
    conversation = log["build"]
    conversation.append(UserMessage(text="Run the tests."))
    conversation.append(
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="pytest")]), id="asked"
    )
    conversation.append(kept(log, outcome(tool(lambda: LARGE, name="pytest"))), id="big")

    request = conversation.request("coder", api=api, policy=TruncateToolOutput())

    assert len(LARGE) > 5_000_000
    (part,) = [part for part in request.parts if part.rule == "compact"]
    assert part.tokens_out <= 400
    assert conversation.outputs["@state/logs/tool-results/big.json"] == LARGE
    assert "read_output" in request.bytes.decode()


def test_the_ready_made_read_output_reads_in_the_conversation_of_its_call(log: Log) -> None:
    conversation = log["build"]
    conversation.append(UserMessage(text="Run the tests."))
    conversation.append(kept(log, ToolOutput((LARGE,))), id="big")
    reader, path = ReadOutput(), "@state/logs/tool-results/big.json"

    def read(arguments: object, conversation: Conversation | None = conversation) -> ToolOutput:
        asked = call("read_output", arguments)._replace(conversation=conversation)
        return asyncio.run(execute(reader, asked, []))

    assert (reader.spec.name, reader.repeat) == ("read_output", "safe")
    assert text(read({"path": path, "offset": 7, "limit": 3})).startswith(
        LARGE[7:10] + "\n[characters 7 to 10 of"
    )
    assert read({"path": "../x"}).is_error
    assert text(read([])).startswith("read_output: expected {")
    assert text(read({}, None)) == "read_output: expected a call in a conversation, found one without"


# Collecting


class Box(Toolset):
    """Two tools that share a connection."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.opened = 0

    async def open(self) -> list[BaseTool]:
        self.opened += 1
        return [tool(lambda: "x", name=name) for name in self.names]

    async def close(self) -> None:
        pass


def look(path: str) -> str:
    return path


def test_functions_become_tools_and_toolboxes_stay_closed_until_they_are_opened() -> None:
    box, made = Box("a", "b"), tool(look, name="made")
    tools = as_runnables([look, made, box])

    assert tools[1:] == (made, box)
    assert box.opened == 0
    assert list(asyncio.run(opened(tools))) == ["look", "made", "a", "b"]
    assert box.opened == 1


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(CallerError, match="expected tools of different names, found two of the name 'look'"):
        as_runnables([look, tool(look)])
    with pytest.raises(CallerError, match="found two of the name 'a'"):
        asyncio.run(opened(as_runnables([Box("a"), tool(look, name="a")])))


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(CallerError, match="expected a function, a tool or a toolbox, found 'look'"):
        as_runnables(["look"])  # type: ignore[list-item]


# How much of a result is kept.


ANY = st.characters(exclude_categories=())  # halves of surrogate pairs too


def test_a_text_of_100_mb_and_more_is_cut_and_says_by_how_much() -> None:
    found = outcome(tool(lambda: "x" * 120_000_000, name="f"))

    kept, note = found.content
    assert len(kept) == 100_000_000
    assert (
        note == "[20,000,000 of 120,000,000 bytes of this result were left out; at most 100,000,000 are kept]"
    )


def test_a_text_is_cut_between_characters_as_a_reader_sees_them() -> None:
    def cut(words: str, limit: int) -> object:
        return truncate_output(ToolOutput((words,)), limit).content[0]

    assert cut("дада", 5) == "да"
    assert cut("a👨‍👩‍👧‍👦b", 20) == "a"
    assert cut("ae\u0301b", 2) == "a"
    assert cut("ab", 2) == "ab"


def test_what_fits_is_kept_and_what_does_not_is_counted() -> None:
    big, small = Attachment(b"x" * 900, "image/png"), Attachment(b"y" * 50)

    found = truncate_output(ToolOutput(("words", big, small, "more words")), 60)

    assert found.content == (
        "words", small, "more ", "[905 of 965 bytes of this result were left out; at most 60 are kept]",
    )  # fmt: skip


@given(st.lists(st.text(ANY, max_size=20) | st.binary(max_size=20)), st.integers(1, 60))
def test_never_more_than_the_limit_is_kept_and_all_of_it_can_be_written(
    items: list[str | bytes], limit: int
) -> None:
    content = tuple(item if isinstance(item, str) else Attachment(item) for item in items)

    found = truncate_output(ToolOutput(content), limit).content
    sizes = [len(item.encode()) if isinstance(item, str) else len(item.content) for item in found]
    whole = sum(len(i.encode(errors="replace")) if isinstance(i, str) else len(i.content) for i in content)

    assert sum(sizes[:-1] if whole > limit else sizes) <= limit
    assert (len(found) > 0 and str(found[-1]).endswith(f"at most {limit:,} are kept]")) == (whole > limit)


# Meta


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        ({"app": {"n": [1, None, "é"]}}, {"app": {"n": [1, None, "é"]}}),
        ({"app": (1, {2})}, {"app": [1, [2]]}),
        ({"app": object()}, "Unable to serialize unknown type"),
        ({"app": float("nan")}, "expected a finite number"),
        ({"app": "\ud83d"}, "surrogates not allowed"),
        ({"app": "x" * LARGEST_META}, "expected at most 64,000 bytes, found 64,010"),
    ],
)
def test_meta_that_no_log_can_hold_is_left_out_and_that_is_said(meta: Mapping[str, Any], kept: Any) -> None:
    found = truncate_output(ToolOutput(("x",), meta=meta), 10).meta

    assert found == kept or kept in found["stenolog"]["meta left out"]


# What a function gives back, as texts and media.


PNG = b"\x89PNG\r\n\x1a\n..."


class Size(BaseModel):
    width: int
    name: str = "é"


@dataclass
class Point:
    x: int
    at: datetime


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, ()),
        ("words\n", ("words\n",)),
        ("", ("",)),
        (PNG, (Attachment(PNG, "image/png"),)),
        (bytearray(b"text"), (Attachment(b"text", "application/octet-stream"),)),
        (memoryview(b"%PDF-1.7"), (Attachment(b"%PDF-1.7", "application/pdf"),)),
        (Attachment(b"x", "text/csv", "a.csv"), (Attachment(b"x", "text/csv", "a.csv"),)),
        (["see", PNG, {"n": 1}], ("see", Attachment(PNG, "image/png"), '{"n":1}')),
        ((Attachment(b"x"), "below"), (Attachment(b"x"), "below")),
        (["a", "b"], ('["a","b"]',)),
        ([], ("[]",)),
        (3, ("3",)),
        (True, ("true",)),
        (0.1, ("0.1",)),
        (float("nan"), ('"NaN"',)),
        (Decimal("1.10"), ('"1.10"',)),
        (Size(width=2), ('{"width":2,"name":"é"}',)),
        (Point(1, datetime(2026, 1, 1, tzinfo=UTC)), ('{"x":1,"at":"2026-01-01T00:00:00Z"}',)),
        ({"b": [1, None], "a": Path("c/d")}, ('{"b":[1,null],"a":"c/d"}',)),
        (Colour.RED, ('"red"',)),
        ({"raw": b"\xff\x00"}, ('{"raw":"_wA="}',)),
    ],
)
def test_a_value_is_told_as_what_it_is(value: object, content: tuple[str | Attachment, ...]) -> None:
    assert outcome_of(value) == ToolOutput(content)


def test_an_outcome_of_the_functions_own_is_kept_with_its_meta() -> None:
    own = ToolOutput(("a", Attachment(b"b")), is_error=True, meta={"app": {"n": 1}})

    assert outcome(tool(lambda: own, name="f")) == own


@pytest.mark.parametrize(
    ("begins", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8", "image/webp"),
        (b"%PDF-1.4", "application/pdf"),
        (b"RIFF\x00\x00\x00\x00WAVE", "application/octet-stream"),
        (b"\x89PNG", "application/octet-stream"),
        (b"this is text", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_bytes_are_a_picture_or_a_pdf_where_they_begin_as_one_and_a_file_else(
    begins: bytes, kind: str
) -> None:
    assert media_of(begins) == Attachment(begins, kind)


def circular() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("give", "kind"), [(object, "object"), (lambda: {"a": {1: object()}}, "dict"), (circular, "list")]
)
def test_what_cannot_be_written_as_json_is_an_error_that_names_its_type(
    give: Callable[[], object], kind: str
) -> None:
    said = error(tool(give, name="f"))

    assert said.startswith(f"expected a result that can be written as JSON, found a {kind}: ")
    assert len(said) < 300


def test_a_result_that_is_nested_too_deep_is_an_error() -> None:
    assert "expected a result that can be written as JSON, found a list" in error(tool(deep))


def test_halves_of_surrogate_pairs_as_file_names_have_them_are_mended() -> None:
    assert outcome(tool(lambda: "a\ud83db", name="f")).content == ("a?b",)
    assert outcome(tool(lambda: {"names": ["caf\udce9"]}, name="f")).content == ('{"names":["caf?"]}',)


# Failures


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("no such file"), "ValueError: no such file"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
        (ToolError("the shelf is empty"), "the shelf is empty"),
        (ToolError(), "ToolError"),
        (MuteError(), "MuteError"),
        (ExceptionGroup("", [OSError("a"), ExceptionGroup("", [OSError("b")])]), "OSError: a\nOSError: b"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 1_988 + "…"),
    ],
)  # fmt: skip
def test_an_exception_is_told_by_its_type_and_its_words_and_never_with_its_traceback(
    raised: BaseException, said: str
) -> None:
    assert failure(raised) == ToolOutput((said,), is_error=True)

"""What a function gives back, as texts and media."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stenolog.adapters.tools.base import Attachment, ToolOutput
from stenolog.adapters.tools.functions import tool
from stenolog.adapters.tools.results import failure, media_of, outcome_of
from stenolog.domain.errors import ToolError
from tests.tools.given import error, outcome

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

"""A file that is one JSON document: what needs no mending is read as what does is, or is refused as it is."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stenolog.adapters.importers.door import json_lines
from stenolog.adapters.importers.door.json_lines import DEEPEST, JsonLinesReader
from stenolog.errors import UnknownFormatError

NUMBERS = some.integers() | some.floats(allow_nan=False, allow_infinity=False)
VALUES = some.recursive(
    some.none() | some.booleans() | NUMBERS | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


def read(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return a document, and what was mended in it."""
    reading = JsonLinesReader()
    return reading.document(io.BytesIO(raw)), dict(reading.repaired)


def mended(raw: bytes) -> tuple[Any, dict[str, int]]:
    """Return the same, read as text."""
    with mock.patch.object(json_lines, "_sound", side_effect=ValueError):
        return read(raw)


@given(VALUES, some.booleans())
def test_a_sound_document_is_read_as_any_other(value: Any, ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii).encode()

    assert repr(read(raw)) == repr(mended(raw)) == repr((value, {}))


@pytest.mark.parametrize(
    ("raw", "value", "repaired"),
    [
        (b"[1e999, -1e999]", ["1e999", "-1e999"], {"NaN and infinities": 2}),
        (b"[NaN]", ["NaN"], {"NaN and infinities": 1}),
        (b'["\\ud800"]', ["\ufffd"], {"lone surrogates": 1}),
        (b'["\xff"]', ["\ufffd"], {"bytes that are not UTF-8": 1}),
        (b'\xef\xbb\xbf{"a": 1, "b": 2, "a": 3}\n', {"a": 3, "b": 2}, {}),
        (b'{"a": 1, "b": 2, "a": 3}\0', {"a": 3, "b": 2}, {}),
        (b'["\\ud83d\\ude00", 123456789012345678901234567890]', ["😀", 123456789012345678901234567890], {}),
    ],
)
def test_what_can_be_mended_is(raw: bytes, value: Any, repaired: dict[str, int]) -> None:
    assert read(raw) == (value, repaired)
    assert json.dumps(read(raw)[0]) == json.dumps(value)


@pytest.mark.parametrize("inside", ["", "1", '"]["'])
def test_nesting_ends_where_it_ends_on_a_line(inside: str) -> None:
    deepest = "[" * DEEPEST + inside + "]" * DEEPEST

    assert read(deepest.encode()) == (json.loads(deepest), {})
    with pytest.raises(UnknownFormatError, match="deeper nesting"):
        read(f"[{deepest}]".encode())

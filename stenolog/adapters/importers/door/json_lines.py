"""Records from JSON Lines as found in practice, one line at a time.

Objects joined on one line are separated, bytes that are not UTF-8 and lone surrogates become U+FFFD, NaN and
infinities their names. Other faults are skipped with line and reason. Memory is bounded by the longest line.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from pydantic_core import from_json

from stenolog.domain.errors import UnknownFormatError

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

LONGEST_LINE = 32 * 1024 * 1024
LONGEST_DOCUMENT = 64 * 1024 * 1024
DEEPEST = 100
"""The deepest nesting of a record: far beyond any real one, and no deeper than the log can read back."""
MOST_VALUES = 2_000_000
"""The values of a line or document: parsed they take a hundred times the memory of their bytes."""
NOBODY: Mapping[str, str] = MappingProxyType({})
_CHUNK = 1024 * 1024
_BLANK = " \t\r\n\0"
_BETWEEN = frozenset(f"{_BLANK},")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RECORD_START = re.compile(r'\{"(?:parentUuid|timestamp|uuid|sessionId)"')
_CANDIDATES = 32
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


class Record(NamedTuple):
    """An object of a file. `line` is its number, or `line.n` for the nth on a line."""

    line: str
    value: JsonObject

    @property
    def number(self) -> int:
        return int(self.line.partition(".")[0])


DOCUMENT = "document"
"""The unit of a value that is all of its file."""


class ValuePlace(NamedTuple):
    """A value's place in a file: its line, or a number of `unit`."""

    number: int
    unit: str = "line"


class Skipped(NamedTuple):
    """An unreadable line and the reason; `unit` if it is no line."""

    line: int
    reason: str
    unit: str = "line"


class JsonLinesReader:
    """Reader that notes skipped lines, repairs, and a truncated end.

    `agents` are the caller's names by foreign ids, for formats without names. `path` is the file. `noted` has
    a format's facts from files without conversations.
    """

    def __init__(
        self,
        longest: int = LONGEST_LINE,
        agents: Mapping[str, str] = NOBODY,
        path: Path | None = None,
        noted: dict[str, Any] | None = None,
    ) -> None:
        self.longest = longest
        self.agents = agents
        self.path = path
        self.noted: dict[str, Any] = {} if noted is None else noted
        self.begin()
        self._decoder = json.JSONDecoder(parse_constant=self._constant, parse_float=self._float)

    def begin(self) -> None:
        """Begin with nothing found."""
        self.skipped: list[Skipped] = []
        self.repaired: Counter[str] = Counter()
        self.incomplete = 0

    def records(self, stream: BinaryIO) -> Iterator[Record]:
        """Yield the objects of a stream of JSON Lines, in order."""
        for line, value in self.values(stream):
            if isinstance(value, dict):
                yield Record(line, value)
            else:
                number = int(line.partition(".")[0])
                self._skip(number, f"expected an object, found {type(value).__name__}")

    def values(self, stream: BinaryIO) -> Iterator[tuple[str, Json]]:
        """Yield a stream's JSON Lines values in order, each with its line."""
        for number, raw, ended in physical_lines(stream, self.longest):
            if raw is None:
                self._skip(number, f"the line is longer than {self.longest // 1024**2} MiB")
                continue
            if len(raw) > MOST_VALUES and _has_too_many(raw):
                self._skip(number, f"more than {MOST_VALUES:,} values")
                continue
            text = self._text(raw)
            if text:
                yield from self._values(number, text, ended)
            elif b"\0" in raw:
                self._skip(number, "NUL bytes and nothing else")

    def document(self, stream: BinaryIO) -> Json:
        """Return a stream's single JSON value.

        Raises `UnknownFormatError` if there is none, or it is too large.
        """
        raw = stream.read(LONGEST_DOCUMENT + 1)
        if len(raw) > LONGEST_DOCUMENT:
            raise UnknownFormatError(
                f"expected a JSON document of at most {LONGEST_DOCUMENT // 1024**2} MiB, found a larger one"
            )
        if len(raw) > MOST_VALUES and _has_too_many(raw):
            raise UnknownFormatError(f"expected JSON of at most {MOST_VALUES:,} values, found more")
        with suppress(ValueError):
            return _sound(raw)
        text = self._text(raw)
        try:
            value, end = self._decoder.raw_decode(text)
            if end != len(text):
                raise json.JSONDecodeError("more data after the document", text, end)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(text) - 1 or "Unterminated" in error.msg
            cut = " (is the file cut off?)" if is_cut else ""
            raise UnknownFormatError(
                f"expected one JSON document; line {error.lineno}, column {error.colno}: {error.msg}{cut}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise UnknownFormatError(f"expected one JSON document, found one that is {_why(error)}") from None
        if _too_deep(text):
            raise UnknownFormatError(f"expected JSON of at most {DEEPEST} levels, found deeper nesting")
        return self._mended(text, value)

    def cell(self, value: object) -> Json:
        """Return a database cell's JSON. Raises as `document`."""
        return self.document(BytesIO(value if isinstance(value, bytes) else str(value).encode()))

    def documents(self, stream: BinaryIO) -> Iterator[tuple[ValuePlace, Json]]:
        """Yield a stream's single JSON value, or those on its lines, with places."""
        try:
            document = self.document(stream)
        except UnknownFormatError:
            stream.seek(0)
            self.begin()
            for line, value in self.values(stream):
                yield ValuePlace(int(line.partition(".")[0])), value
        else:
            yield ValuePlace(1, DOCUMENT), document

    def items(self, stream: BinaryIO) -> Iterator[tuple[ValuePlace, Json]]:
        """Yield values as `documents`; of a single list, its items, however large it is."""
        is_listed = is_list(stream) and is_large(stream)
        for place, value in self._listed(stream) if is_listed else self.documents(stream):
            if place.unit == DOCUMENT and isinstance(value, list):
                yield from ((ValuePlace(number, "item"), item) for number, item in enumerate(value, 1))
            else:
                yield place, value

    def _listed(self, stream: BinaryIO) -> Iterator[tuple[ValuePlace, Json]]:
        """Yield the items of a list, read one by one; of one that is too large or broken, those before it."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        text, number = decoder.decode(stream.read(_CHUNK)), 1
        at = text.index("[") + 1
        while True:
            while text[at : at + 1] in _BETWEEN:
                at += 1
            if text[at : at + 1] == "]":
                return
            with suppress(ValueError, RecursionError):
                value, end = self._decoder.raw_decode(text, at)
                if end < len(text):
                    item = text[at:end]
                    if _has_too_many(item.encode(errors="replace")) or _too_deep(item):
                        break
                    yield ValuePlace(number, "item"), self._mended(item, value)
                    at, number = end, number + 1
                    continue
            # As much again as there is, so that a large item is not tried too often.
            rest = len(text) - at
            if rest > LONGEST_DOCUMENT or not (more := stream.read(max(_CHUNK, rest))):
                break
            text, at = text[at:] + decoder.decode(more), 0
        self.skipped.append(Skipped(number, "cut off, no JSON, or too large", "item"))

    def skip(self, place: ValuePlace, expected: str, found: Json) -> None:
        """Note that a value is not what was expected."""
        reason = f"expected {expected}, found {type(found).__name__}"
        self.skipped.append(Skipped(place.number, reason, place.unit))

    def _skip(self, number: int, reason: str) -> None:
        self.skipped.append(Skipped(number, reason))

    def _text(self, raw: bytes) -> str:
        raw = raw.removeprefix(codecs.BOM_UTF8).strip(_BLANK.encode())
        try:
            return raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
            self.repaired["bytes that are not UTF-8"] += text.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
            return text

    def _values(self, number: int, text: str, ended: bool) -> Iterator[tuple[str, Json]]:
        values, reason = self._split(text, whole=ended)
        for nth, value in enumerate(values, 1):
            yield str(number) if nth == 1 else f"{number}.{nth}", value
        if len(values) > 1:
            self.repaired["objects glued together on one line"] += 1
        if reason and ended:
            self._skip(number, reason)
        elif reason:
            self.incomplete += 1

    def _split(self, text: str, *, whole: bool) -> tuple[list[Json], str]:
        """Return a line's JSON values, and the fault of the rest.

        A whole object may follow a broken one, if a writer was killed and the next continued the line. The
        end of a file still being written is ignored.
        """
        values: list[Json] = []
        at = 0
        while at < len(text):
            try:
                value, end = self._decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                rest = self._resumed(text, at + 1) if whole else []
                return values + rest, _why(error)
            written = text[at:end]
            if _too_deep(written):
                return values, f"nested deeper than {DEEPEST} levels"
            values.append(self._mended(written, value))
            at = end
            while at < len(text) and text[at] in _BLANK:
                at += 1
        return values, ""

    def _resumed(self, text: str, start: int) -> list[Json]:
        for tried, match in enumerate(_RECORD_START.finditer(text, start)):
            if tried == _CANDIDATES:
                break
            try:
                value, end = self._decoder.raw_decode(text, match.start())
            except (ValueError, RecursionError):
                continue
            if end == len(text):
                return [self._mended(text[match.start() :], value)]
        return []

    def _mended(self, text: str, value: Json) -> Json:
        escaped = "\\u" in text and _ESCAPED_SURROGATE.search(text)
        return self._without_surrogates(value) if escaped else value

    def _without_surrogates(self, value: Json) -> Json:
        match value:
            case str():
                mended, found = _SURROGATE.subn("\ufffd", value)
                if found:
                    self.repaired["lone surrogates"] += found
                return mended
            case list():
                return [self._without_surrogates(item) for item in value]
            case dict():
                return {
                    self._without_surrogates(key): self._without_surrogates(item)
                    for key, item in value.items()
                }
            case _:
                return value

    def _constant(self, name: str) -> str:
        self.repaired["NaN and infinities"] += 1
        return name

    def _float(self, text: str) -> float | str:
        number = float(text)
        return number if math.isfinite(number) else self._constant(text)


def csv_rows(stream: BinaryIO, delimiter: str = ",") -> Iterator[Record]:
    """Yield CSV rows named by the first; empty fields are left out.

    Raises `UnknownFormatError` for other files.
    """
    csv.field_size_limit(LONGEST_LINE)
    text = TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
    try:
        rows = csv.DictReader(text, delimiter=delimiter, restkey="more")
        for row in rows:
            value = {name: each for name, each in row.items() if each not in (None, "")}
            yield Record(str(rows.line_num), value)
    except csv.Error as error:
        raise UnknownFormatError(f"expected CSV, found a file that is none: {error}") from None
    finally:
        text.detach()


def physical_lines(stream: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | None, bool]]:
    """Yield each line's number, bytes (None if too long), and whether it ended."""
    number = 0
    while raw := stream.readline(longest):
        number += 1
        if raw.endswith(b"\n") or len(raw) < longest:
            yield number, raw, raw.endswith(b"\n")
        else:
            yield number, None, _pass_over(stream)


def _has_too_many(raw: bytes) -> bool:
    return sum(map(raw.count, (b",", b"[", b"{"))) > MOST_VALUES


def _pass_over(stream: BinaryIO) -> bool:
    while rest := stream.readline(_CHUNK):
        if rest.endswith(b"\n"):
            return True
    return False


def _sound(raw: bytes) -> Json:
    """Return a document's value, parsed as bytes: text takes more memory. Raises `ValueError`."""
    value = from_json(raw, allow_inf_nan=False)
    level = [value]
    for _ in range(DEEPEST + 1):
        if any(isinstance(each, float) and math.isinf(each) for each in level):
            raise ValueError("expected numbers, found an infinity")
        inner = [each for each in level if isinstance(each, list | dict)]
        if not inner:
            return value
        level = [child for each in inner for child in (each.values() if isinstance(each, dict) else each)]
    raise ValueError(f"nested deeper than {DEEPEST} levels")


def _why(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return f"nested deeper than {DEEPEST} levels"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at column {error.colno}: {error.msg}"
    return f"not readable: {error}"


def _too_deep(text: str) -> bool:
    """Return whether brackets outside of strings, if many, are nested too deep."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest > DEEPEST


def is_large(stream: BinaryIO) -> bool:
    """Return whether a file is too large for one document; the stream is reset to its start."""
    size, _ = stream.seek(0, 2), stream.seek(0)
    return size > LONGEST_DOCUMENT


def is_list(stream: BinaryIO) -> bool:
    """Return whether a file begins a JSON list; the stream is reset to its start."""
    found, _ = stream.read(64).lstrip(codecs.BOM_UTF8 + _BLANK.encode()).startswith(b"["), stream.seek(0)
    return found

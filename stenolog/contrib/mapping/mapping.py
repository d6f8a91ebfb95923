"""A mapping in TOML or JSON, checked so that errors name the wrong line.

Its paths are dotted (`message.text`, `parts.*.text`) or JSON pointers (`/a/b`).
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import Json, JsonObject, compact_json, regular_file

ALL = "*"
"""The step that means every item of a list."""


class FieldPath:
    """A path into a record."""

    def __init__(self, written: str) -> None:
        self.written = written
        pointer = written.startswith("/")
        steps = written[1:].split("/") if pointer else written.split(".")
        self.steps = [step.replace("~1", "/").replace("~0", "~") for step in steps] if pointer else steps

    @property
    def top(self) -> str:
        """The field of the record that the path begins with."""
        return self.steps[0]

    def find(self, value: Json) -> Json:
        """Return the value at the path, a list of all matches of `*`; None if missing."""
        found = list(self._walk(value, self.steps))
        return found if ALL in self.steps and found else next(iter(found), None)

    def _walk(self, value: Json, steps: list[str]) -> Iterator[Json]:
        if not steps:
            if value is not None:
                yield value
            return
        step, rest = steps[0], steps[1:]
        # A field may have a dot in its name, as those of a CSV do.
        whole = ".".join(steps)
        if isinstance(value, dict) and len(steps) > 1 and whole in value:
            yield from self._walk(value[whole], [])
        elif isinstance(value, dict) and step in value:
            yield from self._walk(value[step], rest)
        elif isinstance(value, list) and step == ALL:
            for item in value:
                yield from self._walk(item, rest)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            yield from self._walk(value[int(step)], rest)


def words_in(value: Json) -> str:
    """Return a value as words: text, a list's texts line by line, else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(words for item in value if (words := _words_of_item(item)))
    return compact_json(value)


def _words_of_item(item: Json) -> str:
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    return words_in(item)


def paths_in(value: Json, prefix: str = "", depth: int = 3) -> Iterator[str]:
    """Yield a record's dotted paths, for an error message."""
    if not isinstance(value, dict) or not depth:
        yield prefix
        return
    for name, inner in value.items():
        yield from paths_in(inner, f"{prefix}.{name}" if prefix else name, depth - 1)


KINDS = ("user", "assistant", "system", "tool", "ignore")
"""The settings with values of the role that mean a kind of speaker; `ignore`: the record is no message."""
STANDARD = {
    "user": ("user", "human"),
    "assistant": ("assistant", "ai", "bot", "model"),
    "system": ("system", "developer"),
    "tool": ("tool", "function"),
}
"""The values that mean a kind by default."""
PATHS = (
    "role",
    "text",
    "time",
    "id",
    "agent",
    "author",
    "model",
    "reasoning",
    "conversation",
    "title",
    "records",
)
"""The settings whose value is a path into the record; `records` into the document."""
TEXTS = ("name", "format", "delimiter")
"""The settings whose value is a text."""
FORMATS = ("json", "csv")
CALLS = ("list", "id", "name", "arguments")
RESULT = ("call", "name", "text", "error")
LARGEST = 20_000
"""Bytes of the largest mapping; the time that TOML takes grows as the square of a dotted key."""
_HEADER = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_KEY = re.compile(r"""(?:^|[{,])\s*["']?([\w-]+(?:\.[\w-]+)?)["']?\s*[=:]""")
_TABLES = {"calls": CALLS, "result": RESULT}


@dataclass(frozen=True)
class Mapping:
    """A checked mapping; `paths`, `calls` and `result` hold its paths by name.

    `kinds` are kinds of speakers by a role's values in lower case.
    """

    file: str
    name: str
    format: str
    delimiter: str
    paths: dict[str, FieldPath]
    kinds: dict[str, str]
    calls: dict[str, FieldPath] = field(default_factory=dict)
    result: dict[str, FieldPath] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def location(self, *keys: str) -> str:
        """Return a setting's file and line for an error."""
        line = self.lines.get(".".join(keys), 0)
        return f"{self.file}, line {line}" if line else self.file


def read_mapping(path: Path) -> Mapping:
    """Return a file's mapping. Raises `CallerError` with the line and what was expected."""
    text = _content(path)
    given = _parsed(path, text)
    lines = _lines_of(given, text)
    return _Checked(path.name, given, lines).mapping()


def _content(path: Path) -> str:
    try:
        with regular_file(path) as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise CallerError(f"{path.name}: expected at most {LARGEST:,} bytes, found more")
        return content.decode("utf-8-sig")
    except UnknownFormatError as error:
        raise CallerError(f"{path.name}: {error}") from None
    except UnicodeDecodeError:
        raise CallerError(f"{path.name}: expected UTF-8, found other bytes") from None
    except OSError as error:
        raise CallerError(
            f"mapping: expected a file that can be read, found {path}: {error.strerror}"
        ) from None


def _parsed(path: Path, text: str) -> JsonObject:
    """Return a mapping's settings: JSON if it begins with a brace, else TOML."""
    try:
        given = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{path.name}, line {error.lineno}: expected JSON, found {error.msg}") from None
    except (ValueError, RecursionError) as error:
        found = re.search(r"line (\d+)", str(error))
        line = f", line {found[1]}" if found else ""
        raise CallerError(f'{path.name}{line}: expected TOML, such as role = "speaker": {error}') from None
    return given if isinstance(given, dict) else {}


def _lines_of(given: JsonObject, text: str) -> dict[str, int]:
    """Return each setting's line; `calls.name` is in a table."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEADER.match(line):
            table = found[1]
        for found in _KEY.finditer(line):
            name = found[1].replace('"', "")
            if isinstance(given.get(name), dict):  # an inline table, or one of JSON
                table = name
            lines.setdefault(f"{table}.{name}" if table not in ("", name) else name, number)
        if "}" in line:
            table = ""
    return lines


class _Checked:
    """The check of one mapping."""

    def __init__(self, file: str, given: JsonObject, lines: dict[str, int]) -> None:
        self._file = file
        self._given = given
        self._lines = lines

    def mapping(self) -> Mapping:
        known = (*PATHS, *KINDS, *_TABLES, *TEXTS)
        for name in self._given:
            self._check_known(name, known)
        for needed in ("role", "text"):
            if needed not in self._given and not (needed == "text" and "calls" in self._given):
                raise CallerError(
                    f'{self._file}: expected {needed} = "…", the path of the '
                    f"{'speaker' if needed == 'role' else 'words'} in a record, found none"
                )
        paths = {name: self._path(name, self._given[name]) for name in PATHS if name in self._given}
        texts = {name: self._text(name, self._given.get(name, "")) for name in TEXTS}
        if texts["format"] not in ("", *FORMATS):
            raise self._error('expected format = "json" or "csv"', texts["format"], "format")
        if len(texts["delimiter"]) > 1:
            raise self._error('expected delimiter = "…", one character', texts["delimiter"], "delimiter")
        return Mapping(
            file=self._file,
            name=texts["name"] or "mapping",
            format=texts["format"],
            delimiter=texts["delimiter"],
            paths=paths,
            kinds=self._kinds(),
            calls=self._paths("calls"),
            result=self._paths("result"),
            lines=self._lines,
        )

    def _check_known(self, name: str, known: tuple[str, ...], table: str = "") -> None:
        if name in known:
            return
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if table and name in (*PATHS, *KINDS, *TEXTS):
            hint = f"; {name} belongs above [{table}]"
        keys = (table, name) if table else (name,)
        found = ".".join(keys)
        raise CallerError(
            f"{self._location(*keys)}: expected one of {', '.join(known)}, found {found!r}{hint}"
        )

    def _table(self, name: str) -> JsonObject:
        given = self._given.get(name, {})
        if not isinstance(given, dict):
            raise self._error(f"expected a table, [{name}]", given, name)
        for key in given:
            self._check_known(key, _TABLES[name], name)
        return given

    def _paths(self, name: str) -> dict[str, FieldPath]:
        return {key: self._path(key, value, name) for key, value in self._table(name).items()}

    def _kinds(self) -> dict[str, str]:
        """Return the mapping's kinds by role, or the usual ones."""
        given = {kind: self._given[kind] for kind in KINDS if kind in self._given}
        kinds = {value: kind for kind, values in STANDARD.items() if kind not in given for value in values}
        for kind, values in given.items():
            for value in values if isinstance(values, list) else [values]:
                if not isinstance(value, str | int | bool):
                    raise self._error(f'expected {kind} = ["…"], values of the role', value, kind)
                kinds[as_role(value)] = kind
        return kinds

    def _path(self, name: str, value: Json, table: str = "") -> FieldPath:
        if not isinstance(value, str) or not value.strip("/. "):
            keys = (table, name) if table else (name,)
            raise self._error(f'expected {name} = "…", a path such as "message.text"', value, *keys)
        return FieldPath(value.strip())

    def _text(self, name: str, value: Json) -> str:
        if not isinstance(value, str):
            raise self._error(f'expected {name} = "…", a text', value, name)
        return value

    def _error(self, expected: str, found: Any, *keys: str) -> CallerError:
        return CallerError(f"{self._location(*keys)}: {expected}, found {json.dumps(found, default=str)}")

    def _location(self, *keys: str) -> str:
        line = self._lines.get(".".join(keys))
        return f"{self._file}, line {line}" if line else self._file


def as_role(value: Json) -> str:
    """Return a value of the role to compare by."""
    return (value if isinstance(value, str) else json.dumps(value)).strip().casefold()

"""Paths into a record: dotted (`message.text`, `parts.0.text`, `parts.*.text`) or a JSON pointer (`/a/b`)."""

from __future__ import annotations

from collections.abc import Iterator

from stenolog.importers import Json, compact_json

ALL = "*"
"""The step that stands for every item of a list."""


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
        """Return what stands at the path: a list of all found where it has a `*`; None for nothing."""
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
    """Return a value as words: a text, the texts of a list's items line by line, anything else as JSON."""
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
    """Yield the dotted paths of the fields of a record, for a message that says what is there."""
    if not isinstance(value, dict) or not depth:
        yield prefix
        return
    for name, inner in value.items():
        yield from paths_in(inner, f"{prefix}.{name}" if prefix else name, depth - 1)

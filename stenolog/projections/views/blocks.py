"""Blocks of an entry, as a person reads it: text, thoughts, pictures, and calls with what they did.

Which tool edits, runs a command or writes a file is read from its arguments: tools have many names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)

from .acts import Act, acts, gist, is_act, is_result
from .lines import in_words

BlockKind: TypeAlias = Literal[
    "text", "thought", "code", "diff", "command", "terminal", "data", "plain", "picture", "more"
]
Sign: TypeAlias = Literal["-", "+", " ", "@"]
PATHS = ("file_path", "path", "filename", "notebook_path")
"""The arguments that name a file."""
LINES = ("line", "start_line", "offset", "view_range", "insert_line")
"""The arguments that are a line of the file, or begin with one."""
COMMANDS = ("command", "cmd", "script")
"""The arguments that are a command of a shell."""
EDITS = (("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str"))
"""The pairs of arguments that are a text and what replaces it."""
CONTENTS = ("content", "file_text", "contents")
"""The arguments that are the whole of a file."""
PATCH = re.compile(r"\s*(?:\*\*\* Begin Patch|diff --git |--- \S+\s*\n\+\+\+ )")
HUNK = re.compile(
    r"@@|\*\*\* |diff --git |index [0-9a-f]+\.\.|--- |\+\+\+ |new file |deleted file |similarity "
)
COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Sequences that colour a terminal's text, or name its window."""
MOST_STEPS = 300_000
"""Steps of a comparison from which on an edit is shown as all old lines, then all new ones."""
MOST_LINES = 400
"""Lines of a call's edits after which no more are compared."""
LONGEST_GIST = 100


class DiffLine(NamedTuple):
    """A line of a difference: taken out (-), put in (+), in both, or a header (@)."""

    sign: Sign
    text: str


class Block(NamedTuple):
    """A piece of an entry; `part` is the index of its part.

    `name` is the file that code or a difference is of, or what a picture is. A "text" is Markdown; "more" is
    in place of blocks that a reader leaves out.
    """

    kind: BlockKind
    text: str = ""
    name: str = ""
    lines: tuple[DiffLine, ...] = ()
    part: int = -1


class CallBlock(NamedTuple):
    """A call: `gist` is its argument that says most, `blocks` show the others.

    `nth` is its index among the entry's calls; -1 for an act, whose result is in `act`.
    """

    call: ToolCall
    nth: int
    gist: str
    blocks: tuple[Block, ...]
    act: Act | None = None


def blocks(parts: Sequence[Part]) -> Iterator[Block | CallBlock]:
    """Yield the blocks of an entry's parts, in their order."""
    calls, own = 0, iter(acts(parts))
    for at, part in enumerate(parts):
        if isinstance(part, ToolCall):
            yield CallBlock(part, calls, *called(part))
            calls += 1
        elif is_result(part):
            continue  # it is in its act
        elif is_act(part):
            act = next(own)
            call = ToolCall(id=act.id or "act", name=act.name, arguments=act.arguments)
            yield CallBlock(call, -1, *called(call), act=act)
        else:
            yield _block(part, at)


def _block(part: Part, at: int) -> Block:
    match part:
        case TextPart(text=text):
            return Block("text", text, part=at)
        case ReasoningPart(text=text):
            return Block("thought", text, part=at)
        case ImagePart(media_type=media, url=url):
            return Block("picture", "" if url.startswith("data:") else url, media, part=at)
        case RefusalPart() | FilePart() | ProviderPart() | ToolCall():
            return Block("plain", in_words([part]), part=at)


def arguments_of(written: str) -> dict[str, Any]:
    """Return the arguments of a call by name; empty if they are no JSON object."""
    try:
        found = from_json(written)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class NamedFile(NamedTuple):
    """The file that a call names, and a line in it; 0 if it names none."""

    path: str
    line: int


def file_of(written: str) -> NamedFile | None:
    """Return the file that a call's arguments name."""
    given = arguments_of(written)
    path = next((found for name in PATHS if isinstance(found := given.get(name), str) and found), "")
    places = (given.get(name) for name in LINES)
    first = next((each[0] if isinstance(each, list) and each else each for each in places if each), 0)
    line = first if type(first) is int and 0 < first < MOST_STEPS else 0
    return NamedFile(path, line) if path else None


def called(call: ToolCall) -> tuple[str, tuple[Block, ...]]:
    """Return the gist of a call, and the blocks that show it."""
    given = arguments_of(call.arguments)
    if not given:
        if PATCH.match(call.arguments):
            return "", (_patch(call.arguments),)
        return "", () if call.arguments in ("", "{}") else (Block("plain", call.arguments),)
    path = _first(given, PATHS)
    if edits := tuple(_edits(given, path)):
        return path, edits
    for text in given.values():
        if isinstance(text, str) and PATCH.match(text):
            return path, (_patch(text),)
    if command := _first(given, COMMANDS):
        line = command.partition("\n")[0]
        is_short = line == command and len(line) <= LONGEST_GIST
        return (line, ()) if is_short else (_short(line), (Block("command", command),))
    content = next((given[key] for key in CONTENTS if isinstance(given.get(key), str)), None)
    if content is not None and path:
        return path, (Block("code", content, path),)
    said = gist(given)
    if len(given) == 1 and said and len(said) <= LONGEST_GIST and "\n" not in said:
        return said, ()
    return _short(said.partition("\n")[0]), (_data(given),)


def output(parts: Sequence[Part], call: ToolCall | None = None) -> Iterator[Block]:
    """Yield the blocks of a result; `call` is what it answers, if that is known."""
    given = arguments_of(call.arguments) if call is not None else {}
    for at, part in enumerate(parts):
        if not isinstance(part, TextPart):
            yield _block(part, at)
        elif part.text:
            yield _output(part.text, given)._replace(part=at)


def _output(text: str, given: Mapping[str, Any]) -> Block:
    plain = COLOURS.sub("", text)
    if PATCH.match(plain):
        return _patch(plain)
    if _first(given, COMMANDS):
        return Block("terminal", plain)
    if text[:1] in "{[":
        try:
            return _data(from_json(text))
        except ValueError:
            pass
    path = _first(given, PATHS)
    is_read = path and not any(key in given for key in (*CONTENTS, *sum(EDITS, ()), "edits"))
    return Block("code", text, path) if is_read else Block("plain", plain)


def _edits(given: Mapping[str, Any], path: str) -> Iterator[Block]:
    several, found = given.get("edits"), 0
    for each in several if isinstance(several, list) else [given]:
        for old, new in EDITS if isinstance(each, dict) else ():
            before, after = each.get(old), each.get(new)
            if isinstance(before, str) and isinstance(after, str):
                lines = line_diff(before, after, MOST_STEPS if found < MOST_LINES else 0)
                found += len(lines)
                yield Block("diff", name=path, lines=lines)


def line_diff(old: str, new: str, most: int = MOST_STEPS) -> tuple[DiffLine, ...]:
    """Return the lines of two texts: those of - and blank are the old one, of + and blank the new one.

    The first and last lines that are the same are found first. The rest is compared in `most` steps at most.
    """
    before, after = old.split("\n"), new.split("\n")
    first = _same(before, after)
    last = _same(before[first:][::-1], after[first:][::-1])
    start, end = before[:first], before[len(before) - last :]
    before, after = before[first : len(before) - last], after[first : len(after) - last]
    is_short = _steps(before, after) <= most
    changed = _compared(before, after) if is_short else _replaced(before, after)
    return (*_signed(" ", start), *changed, *_signed(" ", end))


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (line, each) in pairs if line != each), min(len(one), len(other)))


def _steps(before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many steps a comparison takes at most: each line found is a pass over all equal pairs."""
    numbers = Counter(after)
    return (len(before) + sum(numbers[line] for line in before)) * min(len(before), len(after))


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    for tag, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from _signed(" ", before[first:last])
        else:
            yield from _replaced(before[first:last], after[start:end])


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    yield from _signed("-", before)
    yield from _signed("+", after)


def _signed(sign: Sign, lines: Sequence[str]) -> Iterator[DiffLine]:
    return (DiffLine(sign, line) for line in lines)


def _patch(text: str) -> Block:
    return Block("diff", lines=tuple(map(_patch_line, text.rstrip("\n").split("\n"))))


def _patch_line(line: str) -> DiffLine:
    if HUNK.match(line):
        return DiffLine("@", line)
    sign: Sign = "-" if line[:1] == "-" else "+" if line[:1] == "+" else " "
    return DiffLine(sign, line[1:] if line[:1] in ("-", "+", " ") else line)


def _first(given: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of these arguments that is a text, or a list of words."""
    for name in names:
        match given.get(name):
            case str(text) if text:
                return text
            case [*words] if words and all(isinstance(word, str) for word in words):
                return " ".join(map(str, words))
            case _:
                pass
    return ""


def _data(given: object) -> Block:
    """Return JSON for a reader: an object of texts and numbers as lines, anything else indented."""
    if isinstance(given, dict) and not any(isinstance(value, dict | list) for value in given.values()):
        return Block("plain", "\n".join(f"{name}: {value}" for name, value in given.items()))
    return Block("data", to_json(given, indent=2, inf_nan_mode="constants").decode("utf-8", "replace"))


def _short(line: str) -> str:
    return line if len(line) <= LONGEST_GIST else f"{line[: LONGEST_GIST - 1]}…"

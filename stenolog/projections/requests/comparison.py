"""Comparison of two requests, sent or as they would have been, by the texts of all APIs' bodies."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from .body_digest import SYSTEM, by_hash, compact, conversation, turns
from .explanation import Omission, RequestPart
from .rules import PROMPT, STAGES
from .tokens import OVERHEAD

FRONT = frozenset(STAGES[PROMPT])
"""The rules of what stands around the conversation."""


class Explained(Protocol):
    """A request as far as it is compared: its body, the source of each part, the omissions, its size."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the provider's JSON body."""
        ...

    @property
    def messages_key(self) -> str:
        """Return the key of the messages in the body."""
        ...

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """Return the source of each part."""
        ...

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Return what was left out."""
        ...

    @property
    def tokens(self) -> int:
        """Return the tokens of the request, as a budget counts them."""
        ...


class Match(NamedTuple):
    """A part of the first request and the same part of the second; None where one of them has it not."""

    before: RequestPart | None
    after: RequestPart | None

    @property
    def sort_key(self) -> tuple[bool, int, bool]:
        """The order of changes: parts of the prefix first, then by position in the log."""
        part = self.after or self.before
        assert part is not None
        return part.rule not in FRONT, min(part.positions, default=0), self.after is not None


def matches(before: Iterable[RequestPart], after: Iterable[RequestPart]) -> list[Match]:
    """Return every part of both, matched by rule and positions, by subject, or by its rule in the prefix.

    What a rule added matches only what the same rule added there: it is another thing than the words that
    it stands at.
    """
    found: list[Match] = []
    left, right = list(before), list(after)
    for key in (_exactly, _by_origin, _by_rule):
        left, right = _matched(left, right, key, found)
    found += [Match(part, None) for part in left] + [Match(None, part) for part in right]
    return sorted(found, key=lambda match: match.sort_key)


def _matched(
    left: Iterable[RequestPart],
    right: Iterable[RequestPart],
    key: Callable[[RequestPart], Hashable | None],
    found: list[Match],
) -> tuple[list[RequestPart], list[RequestPart]]:
    """Match the parts of one key, in their order, and return the unmatched ones of both; None is no key."""
    waiting: dict[Hashable, deque[RequestPart]] = defaultdict(deque)
    for part in right:
        waiting[key(part)].append(part)
    rest = []
    for part in left:
        named = key(part)
        same = waiting.get(named) if named is not None else None
        if same:
            found.append(Match(part, same.popleft()))
        else:
            rest.append(part)
    return rest, [part for parts in waiting.values() for part in parts]


def _exactly(part: RequestPart) -> Hashable | None:
    return part.rule, part.positions


def _by_origin(part: RequestPart) -> Hashable | None:
    return None if part.disposition == "added" or part.rule in FRONT else part.positions[:1] or None


def _by_rule(part: RequestPart) -> Hashable | None:
    return part.rule if part.rule in FRONT else None


def messages(request: Explained) -> Sequence[Any]:
    """Return the messages of a request's body; the turns of a prompt of plain text."""
    return turns(conversation(request.body, request.messages_key))


def around(request: Explained) -> dict[str, Any]:
    """Return the body's fields beside the messages: model, system text, tools, parameters."""
    return {key: value for key, value in request.body.items() if key != request.messages_key}


def text_of(value: Any) -> str:
    """Return the text of a message, or of a part of one; calls as `→ name(arguments)`."""
    match value:
        case str():
            return value
        case list():
            return _joined(map(text_of, value))
        case {"function": {"name": name, "arguments": given}}:
            return f"→ {name}({given})"
        case {"type": "tool_use", "name": name, "input": given}:
            return f"→ {name}({compact(given)})"
        case {"functionCall": {"name": name, "args": given}}:
            return f"→ {name}({compact(given)})"
        case {"functionResponse": {"response": given}}:
            return compact(given)
        case {"type": "function_call", "name": name, "arguments": given}:
            return f"→ {name}({given})"
        case {"type": "thinking", "thinking": str(text)}:
            return f"(thinks: {text})"
        case {"text": str(text)} | {"refusal": str(text)}:
            return text
        case dict():
            return _joined(
                text_of(value[key]) for key in ("content", "output", "parts", "tool_calls") if value.get(key)
            )
        case _:
            return ""


def part_text(request: Explained, part: RequestPart, alone: bool) -> str:
    """Return the text of the part in the body. `alone`: it is the only part of its message.

    Return "" for a part without a text of its own that shares its message: it cannot be told from the
    others.
    """
    if part.text:
        return part.text
    if part.role == "tools":
        return ", ".join(_tool_names(request.body.get("tools", ())))
    if part.message < 0:
        return text_of(next((request.body[key] for key in SYSTEM if key in request.body), ""))
    return text_of(messages(request)[part.message]) if alone else ""


def tokens_of(parts: Iterable[RequestPart]) -> int:
    """Return the tokens of the parts as a budget counts them, as in `Request.size`, without pictures."""
    return sum(part.tokens_out + (0 if part.continues else OVERHEAD) for part in parts)


def _tool_names(tools: Iterable[Any]) -> list[str]:
    """Return the names of the tools.

    A tool is `{"name"}`, `{"function": {"name"}}` or `{"functionDeclarations": […]}`.
    """
    names: list[str] = []
    for tool in tools:
        inner = tool.get("functionDeclarations")
        names += _tool_names(inner) if inner else [tool.get("function", tool).get("name", "")]
    return names


def _joined(messages: Iterable[str]) -> str:
    return " ".join(message for message in messages if message)


Sign: TypeAlias = Literal["-", "+", "~"]


class Shared(NamedTuple):
    """Number of messages from the beginning that are the same to the byte, and their tokens."""

    messages: int
    tokens: int


class Change(NamedTuple):
    """Something that went (-), came (+), or has another form (~).

    `first` to `last` are its positions (0: none); a run that was left out by one rule is one change, of
    `parts` parts. `was` is the rule of the first request and `rule` that of the second: the one that it
    stands there by, or is left out by (empty: it is not there yet, or no longer). `text` is what it says, or
    said; `text_before` is what it said where it has another form.
    """

    sign: Sign
    first: int
    last: int
    role: str
    was: str
    rule: str
    tokens_before: int
    tokens_after: int
    text: str
    parts: int = 1
    text_before: str = ""


class RequestDiff(NamedTuple):
    """Two requests compared, in tokens as a budget counts them.

    `around` names what differs beside the messages, as JSON pointers.
    """

    shared: Shared
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    around: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def equal(self) -> bool:
        """Return whether the two bodies are the same, to the byte."""
        return not self.around and self.shared.messages == self.messages_before == self.messages_after

    def _repr_html_(self) -> str:
        """Return the difference as a table, for a notebook."""
        from stenolog.projections.html_table import table  # late: few programs show one

        shared = f"{self.shared.messages:,} messages shared, {self.shared.tokens:,} tokens"
        around = f"; beside the messages: {', '.join(self.around)}" if self.around else ""
        return table(
            f"{self.tokens_before:,} → {self.tokens_after:,} tokens, {shared}{around}",
            ("", "entries", "role", "rule", "tokens", "text"),
            len(self.changes),
            lambda first, end: (
                (
                    each.sign,
                    _span(each.first, each.last),
                    each.role,
                    each.rule or each.was,
                    f"{each.tokens_after - each.tokens_before:+,}",
                    f"{each.parts:,} parts: {each.text}" if each.parts > 1 else each.text,
                )
                for each in self.changes[first:end]
            ),
        )


def _span(first: int, last: int) -> str:
    return "" if not last else f"{first}" if first == last else f"{first}-{last}"


def diff(before: Explained, after: Explained) -> RequestDiff:
    """Return the difference between two requests, which must be of one API."""
    first, second = _Side(before), _Side(after)
    same = _same(first.messages, second.messages)
    shared = tokens_of(part for part in before.parts if 0 <= part.message < same)
    return RequestDiff(
        Shared(same, shared),
        len(first.messages),
        len(second.messages),
        before.tokens,
        after.tokens,
        tuple(_around(around(before), around(after))),
        tuple(_runs(_changes(first, second))),
    )


class _Side:
    """One of the two requests: what its parts say, and what it left out."""

    def __init__(self, request: Explained) -> None:
        self.request = request
        self.messages = messages(request)
        self._parts = Counter(part.message for part in request.parts)

    def dropped_by(self, part: RequestPart) -> str:
        """Return the rule by which a part's sources were left out here; empty if they were not."""
        where = part.positions[0] if part.positions else 0
        return next((run.rule for run in self.request.omissions if run.first <= where <= run.last), "")

    def text(self, part: RequestPart) -> str:
        """Return the text of a part in the body; empty if it cannot be separated from its message."""
        return part_text(self.request, part, self._parts[part.message] == 1)

    def form(self, part: RequestPart) -> tuple[object, ...]:
        """Return the properties that must be equal in both for a part to have the same form."""
        alone = part.message >= 0 and self._parts[part.message] == 1
        written = _written(self.messages[part.message]) if alone else self.text(part)
        return part.rule, part.disposition, part.tokens_out, written


def same_prefix(before: Explained, after: Explained) -> int:
    """Return how many messages a provider's cache may know from the request before: -1 if not even the front.

    A cache knows a beginning: model, tools and system text, then message by message.
    """
    first, second = around(before), around(after)
    if any(_written(first.get(key)) != _written(second.get(key)) for key in ("model", *SYSTEM, "tools")):
        return -1
    return _same(messages(before), messages(after))


def _same(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Count the items from the beginning that are equal."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and _written(one) != _written(other):
            return index
    return min(len(first), len(second))


def _around(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*first, *second)):
        if _written(first.get(key)) != _written(second.get(key)):
            yield f"/{key}"


def _written(value: Any) -> str:
    """Return the value as text that is equal where the bytes sent are: keys in their order, blobs by hash."""
    return repr(by_hash(value))


def _changes(before: _Side, after: _Side) -> Iterator[Change]:
    """Yield the parts that came, went or changed: those of the prefix first, then the others in log order."""
    for old, new in matches(before.request.parts, after.request.parts):
        if old is None and new is not None:
            yield _change("+", new, before.dropped_by(new), new.rule, 0, new.tokens_out, after.text(new))
        elif new is None and old is not None:
            yield _change("-", old, old.rule, after.dropped_by(old), old.tokens_out, 0, before.text(old))
        elif old is not None and new is not None and not _same_form(before, old, after, new):
            change = _change("~", new, old.rule, new.rule, old.tokens_out, new.tokens_out, after.text(new))
            yield change._replace(text_before=before.text(old))


def _same_form(before: _Side, old: RequestPart, after: _Side, new: RequestPart) -> bool:
    """Return whether a part has the same form in both, mostly without a look at its words."""
    if (old.rule, old.disposition, old.tokens_out) != (new.rule, new.disposition, new.tokens_out):
        return False
    if min(old.message, new.message) >= 0 and old.text == new.text:
        # Requests that follow one another share their messages.
        is_shared = before.messages[old.message] is after.messages[new.message]
        return is_shared or before.form(old) == after.form(new)
    return before.form(old) == after.form(new)


def _change(
    sign: Sign, part: RequestPart, was: str, rule: str, tokens_before: int, tokens_after: int, text: str
) -> Change:
    first, last = min(part.positions, default=0), max(part.positions, default=0)
    return Change(sign, first, last, part.role, was, rule, tokens_before, tokens_after, text)


def _runs(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes, neighbours that were left out by one rule as one."""
    for run, same in groupby(changes, key=lambda change: change.rule if change.sign == "-" else ""):
        if run:
            yield _as_one(list(same))
        else:
            yield from same


def _as_one(run: Sequence[Change]) -> Change:
    begun = run[0]
    if len(run) == 1:
        return begun
    return begun._replace(
        last=max(change.last for change in run),
        role="",
        was="",
        tokens_before=sum(change.tokens_before for change in run),
        parts=len(run),
    )

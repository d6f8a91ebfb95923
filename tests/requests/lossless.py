"""Whether what was said stands in a request, word for word, and its calls as calls: looked up in the body."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stenolog import Entry, Request, ToolCall
from stenolog.domain.parts import TextPart
from stenolog.projections.messages.identifiers import called, tool_name
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests.pipeline.omissions import said_by
from tests.requests.judging import words_of

CALLED = ("function", "function_call", "tool_use", "functionCall", "custom", "custom_tool_call")
"""What a call is on one API or another: the type of an object, or the key that it stands under."""

KINDS = {
    "user_message": "user texts",
    "assistant_message": "answers",
    "tool_result": "results",
    "llm_error": "partial texts",
}


class Account:
    """The account of the texts and calls of a log.

    It counts those in the requests, those that are lost, and those that a rule of the log left out.
    """

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.lost: list[str] = []

    def of(self, entries: Iterable[Entry], request: Request) -> None:
        """Look for what these entries say in the request."""
        told = "\0".join(plain(word) for word in (*words_of(request.body), *tools_found(request.body)))
        calls = list(calls_in(request.body))
        shown = {position for part in request.parts for position in part.positions}
        for run in request.omissions:
            if run.rule == "delivered":  # an error's note may be new where its partial text is not
                shown.difference_update(range(run.first, run.last + 1))
        for entry in entries:
            if entry.position not in shown:
                self._leave_out(entry, request)
                continue
            for what, part in _said(entry):
                here = _is_called(part, calls, told) if isinstance(part, ToolCall) else part.text in told
                if here:
                    self.found[what] += 1
                else:
                    self.lost.append(f"{what} of {entry.position} in {request.api} at {request.at}")

    def _leave_out(self, entry: Entry, request: Request) -> None:
        if next(_said(entry), None) is None:
            return
        rules = [run.rule for run in request.omissions if run.first <= entry.position <= run.last]
        if not rules or rules[0] not in RULES:
            self.lost.append(f"all of {entry.position} in {request.api} at {request.at}")
        self.left_out.update(rules[:1])


def unaccounted(entries: Sequence[Entry], request: Request) -> Iterator[str]:
    """Yield the entries of a log in no part and no omission of a request.

    It also yields the texts and calls that are not at the positions of their parts.
    """
    said = {position for part in request.parts for position in part.positions}
    left_out = {p for run in request.omissions for p in range(run.first, run.last + 1)}
    spoken = {entry.position for entry in entries if entry.event.kind != "mode_switch"}
    yield from (f"entry: {position} is unaccounted for" for position in sorted(spoken - said - left_out))
    if not request.policy.compact:
        account = Account()
        account.of(entries, request)
        yield from (f"words: {lost}" for lost in account.lost)


def is_native(result: int, request: Request) -> bool:
    """Return whether a call is answered by its own result, as a tool's."""
    return any(part.role == "tool" and result in part.positions for part in request.parts)


def plain(text: str) -> str:
    """Return the text as it was before it was quoted."""
    return text.replace("&lt;", "<").replace("\\[", "[")


def calls_in(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Name and arguments of every call in a body, whatever the API; the arguments as JSON has them."""
    if isinstance(value, list):
        for inner in value:
            yield from calls_in(inner)
    elif isinstance(value, dict):
        if "name" in value and (key in CALLED or value.get("type") in CALLED):
            given = [value[name] for name in ("arguments", "input", "args") if name in value]
            yield from ((value["name"], arguments(each)) for each in given)
        if value.get("type") == "tool_search_call":  # it has no name
            yield "tool_search", arguments(value["arguments"])
        for name, inner in value.items():
            yield from calls_in(inner, name)


def tools_found(body: Any) -> Iterator[str]:
    """Yield the text of each result that a body has as a list of tools instead."""
    for item in body.get("input", ()):
        if item.get("type") == "tool_search_output":
            yield plain(json.dumps(item["tools"], ensure_ascii=False, separators=(",", ":")))


def arguments(given: Any) -> str:
    """Return arguments in one form: texts that are no JSON object are what the APIs wrap as `_raw`."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = None
    return json.dumps(found if isinstance(found, dict) else {"_raw": given}, sort_keys=True)


def _said(entry: Entry) -> Iterator[tuple[str, TextPart | ToolCall]]:
    """Yield the texts and calls of an entry, each with what it is."""
    kind = KINDS.get(entry.event.kind, "")
    for part in said_by(entry.event):
        match part:
            case TextPart(text=text) if text.strip():
                yield kind, TextPart(text=plain(text))
            case ToolCall():
                yield "calls", part
            case _:
                pass


def _is_called(call: ToolCall, calls: list[tuple[str, Any]], told: str) -> bool:
    """Return whether a call is in a request, as one, or in prose where it is another agent's."""
    names = (tool_name(call.name), tool_name(called(call)))
    forms = (arguments(call.arguments), arguments({"_raw": call.arguments}))
    return (
        any((name, form) in calls for name in names for form in forms)
        or plain(f"[calls {call.name} {call.arguments}]") in told
    )

"""Parts of a recorded call's request, and the request without some of them: what an answer may depend on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.values import PositionRange
from stenolog.projections.formats import validator_of
from stenolog.projections.formats.readable import mapped_texts, texts, tool_names, without_tools
from stenolog.projections.messages.body_digest import SYSTEM, compact
from stenolog.projections.messages.message import Body
from stenolog.projections.messages.sizes import ESTIMATE
from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.request import PATCH
from stenolog.projections.views.lines import describe
from stenolog.projections.views.tool_pairs import pair

from .cases import Case
from .changes import HERE, Change, Here, built, is_foreign


class Part(NamedTuple):
    """A part that can be left out: a line of the system text, a tool, or entries that belong together.

    An answer with calls and their results are one part. `name` is the line, the tool, or the positions;
    `nth` counts equal lines from 0.
    """

    kind: Literal["system", "tool", "entry"]
    name: str
    text: str
    tokens: int
    positions: tuple[int, ...] = ()
    nth: int = 0


class Divided(NamedTuple):
    """A recorded call's request as it is asked again, and its parts.

    `last` is the index of the part that it ends with; None if no part is an entry.
    """

    case: Case
    request: Request
    parts: tuple[Part, ...]

    @property
    def last(self) -> int | None:
        return max((at for at, part in enumerate(self.parts) if part.kind == "entry"), default=None)


def divided(case: Case, entries: Iterable[Entry], means: Here = HERE) -> Divided:
    """Return a call's request in parts. Raises `CallerError` if it cannot be built.

    Of another program's request the messages are as stenolog writes them, since those it wrote itself cannot
    be taken apart; all else is as it was sent.
    """
    log = list(entries)
    request = _in_form(case, built(_plain(case), log, means=means), built(case, log, means=means))
    return Divided(case, request, tuple(parts_of(request, log)))


def parts_of(request: Request, log: Sequence[Entry]) -> Iterator[Part]:
    """Yield the parts of a request on these entries: lines, tools, entries, in their order."""
    yield from _lines(request)
    yield from _tools(request)
    yield from _entries(request, log)


def without(
    whole: Divided, entries: Iterable[Entry], gone: Iterable[int], means: Here = HERE
) -> Request | None:
    """Return a request without the parts of these indexes; None if its provider would refuse it."""
    log, parts = list(entries), [whole.parts[at] for at in gone]
    made = _hidden(whole, log, {at for part in parts for at in part.positions}, means)
    if made is None:
        return None
    lines = Counter((part.name, part.nth) for part in parts if part.kind == "system")
    body = _without_lines(made, lambda line, nth: (line, nth) in lines) if lines else made.body
    body = without_tools(body, {part.name for part in parts if part.kind == "tool"})
    made = made if body == made.body else made.with_body(body, None)
    return made if _broken(made) <= _broken(whole.request) else None


def in_words(parts: Sequence[Part]) -> str:
    """Return parts in words, such as "entries 3-4, tool shell, 2 lines of the system text"."""
    positions = sorted({at for part in parts for at in part.positions})
    tools = [part.name for part in parts if part.kind == "tool"]
    lines = [part.name for part in parts if part.kind == "system"]
    phrases = []
    if positions:
        runs = runs_in_words([(run.first, run.last) for run in _runs(positions)])
        phrases.append(f"{'entry' if len(positions) == 1 else 'entries'} {runs}")
    if tools:
        phrases.append(f"tool{'s' * (len(tools) > 1)} {', '.join(tools)}")
    if lines:
        phrases.append(f"“{lines[0]}”" if len(lines) == 1 else f"{len(lines)} lines of the system text")
    return ", ".join(phrases)


def _plain(case: Case) -> Case:
    """Return a call as if its request had been sent in stenolog's own form."""
    receipt = case.receipt
    if receipt is None or not is_foreign(case):
        return case
    plan = {key: value for key, value in receipt.plan.items() if key != PATCH}
    return case._replace(answer=replace(case.answer, receipt=replace(receipt, plan=plan)))


def _in_form(case: Case, made: Request, sent: Request) -> Request:
    if not is_foreign(case):
        return made
    key = made.messages_key
    return made.with_body({**sent.body, key: made.body[key]}, None)


def _hidden(whole: Divided, log: Sequence[Entry], gone: set[int], means: Here) -> Request | None:
    """Return a request without these entries; nothing comes in their place."""
    if not gone:
        return whole.request
    shown, hidden = _shown_positions(whole.request), set(gone)
    while True:
        try:
            made = built(_plain(whole.case), log, Change(without=_runs(hidden)), means)
        except CallerError:
            return None
        # Without a summary, what it covers would be shown again.
        if not (more := _shown_positions(made) - shown - hidden):
            return _in_form(whole.case, made, whole.request)
        hidden |= more


def _shown_positions(request: Request) -> set[int]:
    return {at for part in request.parts if _is_entry(part) for at in part.positions}


def _is_entry(part: RequestPart) -> bool:
    return part.message >= 0 and not part.text and bool(part.positions)


def _runs(positions: Iterable[int]) -> list[PositionRange]:
    runs: list[PositionRange] = []
    for at in sorted(positions):
        if runs and runs[-1].last == at - 1:
            runs[-1] = PositionRange(first=runs[-1].first, last=at)
        else:
            runs.append(PositionRange(first=at, last=at))
    return runs


def _broken(request: Request) -> Counter[str]:
    return Counter(one.law for one in validator_of(request.api).violations(request.body))


def _lines(request: Request) -> Iterator[Part]:
    found: list[tuple[str, int]] = []

    def noted(line: str, nth: int) -> bool:
        found.append((line, nth))
        return False

    _without_lines(request, noted)
    for line, nth in found:
        yield Part("system", line, line, ESTIMATE.count(line), nth=nth)


def _without_lines(request: Request, is_gone: Callable[[str, int], bool]) -> Body:
    """Return a body without the lines of its system text that are gone, each asked about by its number."""
    times: Counter[str] = Counter()

    def change(text: str) -> str:
        kept, has_words = [], False
        for line in text.split("\n"):
            if name := line.strip():
                times[name] += 1
                if is_gone(name, times[name] - 1):
                    continue
                has_words = True
            kept.append(line)
        return "\n".join(kept) if has_words else ""

    body = {
        key: mapped_texts(value, change) if key in SYSTEM else value for key, value in request.body.items()
    }
    body = {key: value for key, value in body.items() if value or key not in SYSTEM}
    key, said = request.messages_key, body[request.messages_key]
    notes = [part for part in request.parts if part.text and _is_in(said, part)]
    if isinstance(said, str):
        for part in notes:
            said = said.replace(part.text, change(part.text), 1)
        return {**body, key: said}
    changed: dict[int, Any] = dict(enumerate(said))
    for part in notes:
        less = change(part.text)
        if less != part.text:
            put = partial(_replaced, was=part.text, less=less)
            changed[part.message] = mapped_texts(changed[part.message], put)
    return {**body, key: [message for message in changed.values() if message]}


def _is_in(said: Any, part: RequestPart) -> bool:
    """Return whether a note is in its message; one may be quoted there in other letters."""
    message = said if isinstance(said, str) else said[part.message : part.message + 1]
    return part.message >= 0 and any(part.text in text for text in texts(message))


def _replaced(text: str, was: str, less: str) -> str:
    # The text may be within a note's own words.
    return less if text == was else text.replace(was, less, 1)


def _tools(request: Request) -> Iterator[Part]:
    tools = request.body.get("tools", ())
    for name in dict.fromkeys(filter(None, tool_names(tools))):
        alone = without_tools({"tools": tools}, set(tool_names(tools)) - {name})
        text = compact(alone.get("tools", ()))
        yield Part("tool", name, text, ESTIMATE.count(text))


def _entries(request: Request, log: Sequence[Entry]) -> Iterator[Part]:
    tokens: Counter[int] = Counter()
    for part in request.parts:
        if _is_entry(part):
            tokens[part.positions[0]] += part.tokens_out
    shown = _shown_positions(request)
    calls = pair(log).calls
    units: dict[int, list[int]] = defaultdict(list)
    for at in sorted(shown):
        call = calls.get(at)
        units[call.position if call is not None and call.position in shown else at].append(at)
    by_position = {entry.position: entry for entry in log}
    for positions in units.values():
        name = runs_in_words([(run.first, run.last) for run in _runs(positions)])
        text = describe(by_position[positions[0]]).what
        yield Part("entry", name, text, sum(tokens[at] for at in positions), tuple(positions))

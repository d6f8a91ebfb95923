"""Runs side by side: where one goes another way, what it had read, and what followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import ModeSwitch, Unknown
from stenolog.domain.verdict import child_of
from stenolog.projections.analysis.drift import masked
from stenolog.projections.analysis.runs.comparison import Comparison, Divergence, compare
from stenolog.projections.analysis.runs.majority import Leaving, Majority, majority
from stenolog.projections.analysis.runs.prompts import prompt_difference
from stenolog.projections.analysis.runs.steps import kept_fields
from stenolog.projections.analysis.word_diff import Span, word_diff
from stenolog.projections.views.lines import EntryLine, entry_line, in_words

from .asked_request import AskedRequest
from .differences import Difference, difference_data

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

SHOWN = 8
"""Differences that are listed of what followed."""


class How(NamedTuple):
    """The question to some runs: what of them is compared, and how exactly.

    `calls`: only the calls of answers count, not their words. `loosely`: dates, ids and paths make no
    difference.
    """

    agent: str = ""
    calls: bool = False
    loosely: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `compare` and `majority`."""
        return {"agent": self.agent, "calls": self.calls, "mask": masked if self.loosely else str}


class Beside(NamedTuple):
    """A difference as it is shown: the entries of both runs in words, None in a run without one."""

    divergence: Divergence
    before: EntryLine | None
    after: EntryLine | None


class TwoRuns(NamedTuple):
    """Two runs compared: the first difference, the first answer that differs, and what followed.

    `words` are the stretches of what was said, or set, in both, if the first difference is no answer.
    `requests` are those before `answer`, the first that both gave differently. `inside` are the conversations
    of two workers, if it is their results that differ first.
    """

    names: tuple[str, str]
    comparison: Comparison
    first: Beside | None
    words: tuple[Span, ...]
    answer: Beside | None
    requests: Difference | None
    inside: tuple[str, str] | None
    followed: tuple[Beside, ...]
    others: tuple[Beside, ...]


class ManyRuns(NamedTuple):
    """Many runs: their names, the majority, and each run that left it, with its first difference."""

    names: tuple[str, ...]
    majority: Majority
    left: tuple[tuple[Leaving, Beside | None], ...]


def two_runs(before: Conversation, after: Conversation, how: How) -> TwoRuns:
    """Return two conversations compared."""
    logs = [*before.entries()], [*after.entries()]
    comparison = compare(*logs, **how.options)
    shown = _Shown(*logs)
    first, answer = comparison.first, comparison.answer
    return TwoRuns(
        (before.name, after.name),
        comparison,
        None if first is None else shown.beside(first),
        () if first is None or first == answer else shown.word_changes(first),
        None if answer is None else shown.beside(answer),
        None if answer is None else _requests((before, after), logs, comparison, answer),
        None if first is None else shown.workers(first),
        tuple(shown.beside(each) for each in comparison.followed if each != answer)[:SHOWN],
        tuple(shown.beside(each) for each in comparison.others[:SHOWN]),
    )


def many_runs(conversations: Sequence[Conversation], how: How) -> ManyRuns:
    """Return many conversations compared with the one that most are like."""
    logs = [[*each.entries()] for each in conversations]
    found = majority(logs, **how.options)
    left = []
    for each in found.others:
        first = each.comparison.first
        shown = _Shown(logs[found.run], logs[each.run])
        left.append((each, None if first is None else shown.beside(first)))
    return ManyRuns(tuple(each.name for each in conversations), found, tuple(left))


def _requests(
    runs: tuple[Conversation, Conversation],
    logs: tuple[Sequence[Entry], Sequence[Entry]],
    comparison: Comparison,
    answer: Divergence,
) -> Difference:
    """Return the difference of the requests before an answer that both gave."""
    asked, asked_later = (
        AskedRequest(talk, lane, view, None, None, ())
        for talk, lane, view in zip(runs, answer.lanes, answer.views, strict=True)
    )
    one, other = asked.request(), asked_later.request()
    if one.api != other.api:  # two forms of one request differ everywhere
        one = asked._replace(api=other.api.partition("@")[0], as_built=True).request()
    card = runs[0].settings(at=answer.views[0]).cards.get(one.agent)
    return Difference(one, other, prompt_difference(one, other, logs, comparison, card), None, None)


class _Shown:
    """The entries of two runs in words."""

    def __init__(self, before: Iterable[Entry], after: Iterable[Entry]) -> None:
        self._logs = [{entry.position: entry for entry in log} for log in (before, after)]

    def beside(self, divergence: Divergence) -> Beside:
        one, other = (entry and entry_line(entry) for entry in self._entries(divergence))
        return Beside(divergence, one, other)

    def word_changes(self, divergence: Divergence) -> tuple[Span, ...]:
        one, other = self._entries(divergence)
        return word_diff(_text(one), _text(other)) if one and other else ()

    def workers(self, divergence: Divergence) -> tuple[str, str] | None:
        one, other = (entry and child_of(entry.event) for entry in self._entries(divergence))
        return (one, other) if one and other else None

    def _entries(self, divergence: Divergence) -> tuple[Entry | None, Entry | None]:
        before, after = self._logs
        return before.get(divergence.before), after.get(divergence.after)


def _text(entry: Entry) -> str:
    """Return what an entry says in full; of a setting a line for each field."""
    event = entry.event
    if isinstance(event, ModeSwitch):
        return "".join(f"{line}\n" for line in _fields(kept_fields(event)))
    return "" if isinstance(event, Unknown) else in_words(event.parts)


def _fields(value: Any, names: str = "") -> Iterator[str]:
    """Yield the fields of JSON in lines, each with the names that lead to it."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for name, inner in pairs:
            yield from _fields(inner, f"{names} {name}".strip())
    else:
        yield f"{names}: {value}"


def two_runs_data(found: TwoRuns) -> dict[str, Any]:
    """Return two runs compared, as JSON."""
    comparison = found.comparison
    return {
        "runs": found.names,
        "differ": comparison.first is not None,
        "shared_entries": comparison.shared,
        "same_steps": comparison.same,
        "first": found.first and _beside_data(found.first),
        "words": [span for span in found.words if span.sign != "="],
        "answer": found.answer and _beside_data(found.answer),
        "inside": found.inside,
        "requests": found.requests and difference_data(found.requests),
        "followed": comparison.followed,
        "others": comparison.others,
        "asides": comparison.asides,
    }


def many_runs_data(found: ManyRuns) -> dict[str, Any]:
    """Return many runs compared, as JSON."""
    return {
        "runs": found.names,
        "differ": any(first is not None for _, first in found.left),
        "majority": found.names[found.majority.run],
        "left": [
            {
                "run": found.names[leaving.run],
                "same_steps": leaving.comparison.same,
                "stay": leaving.stay,
                "first": first and _beside_data(first),
            }
            for leaving, first in found.left
        ],
    }


def _beside_data(beside: Beside) -> dict[str, Any]:
    words = {
        name: line and line._asdict() for name, line in (("before", beside.before), ("after", beside.after))
    }
    return {**beside.divergence._asdict(), "words": words}

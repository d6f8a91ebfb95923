"""Output of `explain answer`: the parts of an answer's request, and those that it depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.adapters.providers.prices import usd
from stenolog.apps.cli.lines import Piece, counted, line
from stenolog.apps.views.answer_causes import AnswerCauses, Effect, effects
from stenolog.projections.analysis.retry import Interval, interval
from stenolog.projections.analysis.retry.halving import Halved, Terms, most_requests
from stenolog.projections.analysis.retry.leaving_out import Part, in_words

from .layout import Cell, table, wrapped

MARKS = {"single": "✓ ", "jointly": "✓ ", "among": "? "}


def parts_drawn(parts: Sequence[Part], terms: Terms) -> Iterator[Piece]:
    """Yield each part, and how many calls it takes at most to try them."""
    rows = [
        (part.kind, part.name if part.kind != "system" else "", f"{part.tokens:,}", (part.text, "dim"))
        for part in parts
    ]
    yield table(("PART", "~NAME", ">TOKENS", "*TEXT"), rows)
    requests = most_requests(len(parts))
    calls = f"{counted(requests, 'request')}, each {terms.samples} times: {requests * terms.samples:,} calls"
    yield wrapped((f"to find the cause: at most {calls}", "dim"), hang=2)


def causes_drawn(causes: AnswerCauses, terms: Terms) -> Iterator[Piece]:
    """Yield what the answer depends on, in a sentence, and each effect with its bounds."""
    found = causes.found
    if found is None:
        return
    shown = effects(causes, terms.confidence)
    yield from _verdict(found, shown)
    again = interval(found.passed, found.of, terms.confidence)
    rows: list[tuple[Cell, ...]] = [("as recorded", _share(again), "", "", "")]
    rows += [_row(effect) for effect in shown]
    yield table(("REQUEST", ">SAME ANSWER", ">CHANGE", "BOUNDS", "*TEXT"), rows)
    if found.fixed:
        names = in_words([causes.whole.parts[at] for at in found.fixed])
        yield wrapped((f"cannot be left out: {names}", "dim"), hang=2)
    asked = f"{counted(found.requests, 'request')}, {causes.calls:,} answers, ${usd(causes.micro_usd)}"
    yield line((f"{asked}; confidence {terms.confidence:.0%}", "dim"))


def _verdict(found: Halved, shown: Sequence[Effect]) -> Iterator[Piece]:
    if found.verdict == "not repeated":
        words = "asked again as recorded, the model rarely answers so: no part can be blamed"
        yield wrapped(("! ", "yellow"), words, hang=2)
    elif found.verdict == "no difference":
        yield wrapped(("· ", "dim"), "no part was found that the answer depends on", hang=2)
    for effect in shown:
        words = in_words(effect.parts)
        if effect.how == "jointly":
            words = f"{words}: any of them is enough for it"
        elif effect.how == "among":
            words = f"something in {words}"
        yield wrapped((MARKS[effect.how], "green"), "the answer depends on ", (words, "bold"), hang=2)
    if not found.is_complete:
        yield wrapped(("! ", "yellow"), "it ended early: the budget, or the model", hang=2)


def _row(effect: Effect) -> tuple[Cell, ...]:
    compared = effect.comparison
    change = compared.after.share - compared.before.share
    bounds = f"{compared.low:+.0%} to {compared.high:+.0%}"
    text = " · ".join(part.text for part in effect.parts)
    return _without(effect.parts), _share(compared.after), f"{change:+.0%}", bounds, (text, "dim")


def _without(parts: Sequence[Part]) -> str:
    [part, *others] = parts
    name = "a system line" if part.kind == "system" else f"{part.kind} {part.name}"
    return f"without {name}" + (f" and {len(others)} more" if others else "")


def _share(found: Interval) -> str:
    return f"{found.passed} of {found.of}, {found.share:.0%}"

"""Two runs compared: a planted difference is found at its step, and what may come in any order is none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import stenolog
from stenolog import AssistantMessage, Entry, LlmError, ModeSwitch, Request, ToolResult, UserMessage
from stenolog.analysis import Comparison, compare, majority
from stenolog.context import FullHistory
from stenolog.domain.codec import REGISTRY
from stenolog.errors import StenologError
from stenolog.events import CallRef, Control, Unknown
from stenolog.projections.analysis.runs.prompts import prompt_difference
from stenolog.requests import build
from tests.random_cases import seeds
from tests.simulation import actions
from tests.simulation.simulation import Run, play

KINDS = ("result", "instruction", "card", "answer", "swap")
SPOKEN = (AssistantMessage, LlmError)


class Planted(NamedTuple):
    """Two runs, and the one difference between them: its positions in both, 0 for none."""

    before: Sequence[Entry]
    after: Sequence[Entry]
    kind: str
    at: tuple[int, int]


def stories(first: int, folder: Path) -> Iterator[tuple[int, list[list[Entry]]]]:
    """Yield the conversations of the simulation's stories, from a seed on."""
    for seed in count(first):
        path = folder / f"{seed}.db"
        play(Run(seed, tuple(actions.script(seed))), copy=path)
        with stenolog.open(path) as log:
            yield seed, [list(log[name].entries()) for name in log.names()]
        path.unlink()


def planted(seed: int, folder: Path) -> Planted:
    """Return a run of the first story from a seed on that has a place for the difference, and another one."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    for story, conversations in stories(1 + 3 * seed, folder):
        random.shuffle(conversations)
        for entries in conversations:
            said = Counter(getattr(entry.event, "text", "") for entry in entries)
            # Of two that say the same to the same agents, nobody knows which one is lost.
            fits = (entry for entry in entries if _fits(entry, kind))
            places = [
                each.position for each in fits if said[getattr(each.event, "text", "")] == 1 or kind == "card"
            ]
            if places and len(entries) > 4:
                return _planted(random, entries, kind, random.choice(places))
        assert story < 1 + 3 * seed + 100, "no story has a place for it"
    raise AssertionError


def _fits(entry: Entry, kind: str) -> bool:
    match kind, entry.event:
        case "result", ToolResult(parts=(_, *_)):
            return True
        case "instruction", UserMessage(author_kind="person", control=None, replaces=None, text=text):
            return text.startswith(("message", "note", "@"))
        case "card", ModeSwitch(cards=cards):
            return any(cards.values())
        case "answer", AssistantMessage(purpose="answer"):
            return True
        case _:
            return kind == "swap" and isinstance(entry.event, ToolResult | AssistantMessage)


def _planted(random: Random, before: list[Entry], kind: str, at: int) -> Planted:
    after = [*before]
    if kind == "instruction":
        after = reordered(before, [entry.position for entry in before if entry.position != at])
    elif kind != "swap":
        after[at - 1] = _other(random, before[at - 1])
    if kind != "swap":
        for position in _led_to(before, at):
            if random.random() < 0.8:
                nth = position - 1 - (kind == "instruction")
                after[nth] = _otherwise(after[nth])
    after, there = swapped(random, after, at)
    found = {"swap": (0, 0), "instruction": (at, 0)}.get(kind, (at, there))
    return Planted(before, renamed(random, after), kind, found)


def _other(random: Random, entry: Entry) -> Entry:
    event: Any = entry.event
    match event:
        case ModeSwitch(cards=cards):
            agent, card = random.choice([(agent, card) for agent, card in cards.items() if card])
            changed: dict[str, Any] = random.choice(
                ({"persona": f"{card.persona} Be kind."}, {"model": "another"})
            )
            return entry._replace(event=replace(event, cards={**cards, agent: replace(card, **changed)}))
        case _:
            return _otherwise(entry)


def _otherwise(entry: Entry) -> Entry:
    event: Any = entry.event
    parts = [part for part in event.parts if part.type != "text"]
    return entry._replace(event=replace(event, parts=[stenolog.TextPart(f"{event.text} otherwise"), *parts]))


def _led_to(entries: Sequence[Entry], at: int) -> list[int]:
    """Return the answers whose requests held what is changed at a position, or an answer that did."""
    changed = {at}
    for entry in entries:
        event = entry.event
        if isinstance(event, AssistantMessage) and entry.position > at and event.in_context:
            view = event.receipt.view if event.receipt else entry.position - 1
            if changed & _held(entries[:view], event):
                changed.add(entry.position)
    return sorted(changed - {at})


def _held(entries: Sequence[Entry], answer: AssistantMessage) -> set[int]:
    if not entries:
        return set()
    cards = {entry.position for entry in entries if answer.agent in getattr(entry.event, "cards", ())}
    try:
        built = build(entries, answer.agent, task=answer.task)
    except StenologError:
        return set()
    return set(chain.from_iterable(part.positions for part in built.parts)) | {max(cards, default=0)}


def swapped(random: Random, entries: list[Entry], at: int) -> tuple[list[Entry], int]:
    """Return a run with neighbours swapped that know nothing of each other, and the new place of an entry."""
    ends = {_view(entry.event, entry.position) for entry in entries if isinstance(entry.event, SPOKEN)}
    starts = (getattr(entry.event, "context_from", None) for entry in entries)
    ends |= {start - 1 for start in starts if isinstance(start, int)}
    order = [entry.position for entry in entries]
    for first in random.choices(range(1, max(len(entries), 2)), k=3 * len(entries)):
        pair = order[first - 1 : first + 1]
        # Requests and contexts end at the same number of entries, so none must end between the two.
        if first not in ends and len(pair) == 2 and _are_apart(entries[pair[0] - 1], entries[pair[1] - 1]):
            order[first - 1 : first + 1] = pair[1], pair[0]
    return reordered(entries, order), order.index(at) + 1 if at in order else 0


def _are_apart(one: Entry, other: Entry) -> bool:
    """Return whether two neighbours are of different lanes or calls, and the later names the earlier not."""
    settings = any(isinstance(entry.event, ModeSwitch | Unknown) for entry in (one, other))
    named = {*_references(other.event)} & {one.position, one.id}
    mine, theirs = (_line(entry.event) for entry in (one, other))
    return not settings and not named and mine != theirs


def _line(event: Any) -> object:
    match event:
        case AssistantMessage() | LlmError():
            return event.agent, event.task
        case ToolResult() if event.call is None:
            return "orphan"
        case ToolResult(call=call) | UserMessage(control=Control(call=CallRef() as call)):
            return call
        case _:
            return "person"


def _view(event: Any, position: int) -> int:
    return event.receipt.view if event.receipt else position - 1


def _references(event: Any) -> Iterator[object]:
    yield from (getattr(event, name, None) for name in ("cause", "replaces"))
    yield getattr(getattr(event, "call", None), "entry", None)
    yield getattr(getattr(getattr(event, "control", None), "call", None), "entry", None)
    for span in getattr(event, "covers", ()):
        yield from range(span.first, span.last + 1)


def reordered(entries: Sequence[Entry], order: Sequence[int]) -> list[Entry]:
    """Return these entries in this order, with the positions that they name."""
    there = {old: new for new, old in enumerate(order, 1)}

    def moved(fields: dict[str, Any]) -> dict[str, Any]:
        for name in ("cause", "replaces"):
            if name in fields:
                fields[name] = there.get(fields[name], fields[name])
        for name in ("covers", "hides"):
            spans = fields.get(name) or ()
            each = (
                there[old] for span in spans for old in range(span["first"], span["last"] + 1) if old in there
            )
            if spans:
                fields[name] = [{"first": new, "last": new} for new in sorted(each)]
        if fields.get("context_from"):
            fields["context_from"] = 1 + sum(old < fields["context_from"] for old in order)
        if fields.get("receipt"):
            fields["receipt"]["view"] = sum(old <= fields["receipt"]["view"] for old in order)
        return fields

    kept = (entries[old - 1] for old in order)
    return [_remade(entry, moved)._replace(position=new) for new, entry in enumerate(kept, 1)]


def renamed(random: Random, entries: Sequence[Entry]) -> list[Entry]:
    """Return a run as another one has it: other ids and times, and an answer's calls in another order."""
    indexes: dict[str, list[int]] = {}
    for entry in entries:
        calls = [part for part in getattr(entry.event, "parts", ()) if part.type == "tool_call"]
        indexes[entry.id] = random.sample(range(len(calls)), len(calls))
        if len({call.id for call in calls}) < len(calls) or any("transfer" in call.name for call in calls):
            indexes[entry.id] = [*range(len(calls))]

    def other(entry: Entry) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def changed(fields: dict[str, Any]) -> dict[str, Any]:
            for call in (fields.get("call"), (fields.get("control") or {}).get("call")):
                if call:
                    call["index"] = indexes[call["entry"]].index(call.get("index", 0))
                    call["entry"] = f"another-{call['entry']}"
            if "call_id" in fields:
                fields["call_id"] = f"another-{fields['call_id']}"
            calls = [part for part in fields.get("parts", ()) if part["type"] == "tool_call"]
            rest = [part for part in fields.get("parts", ()) if part["type"] != "tool_call"]
            if calls:
                calls = [calls[nth] | {"id": f"another-{calls[nth]['id']}"} for nth in indexes[entry.id]]
                fields["parts"] = [*rest, *calls]
            return fields

        return changed

    later = timedelta(seconds=random.randrange(10_000))
    made = (_remade(entry, other(entry)) for entry in entries)
    return [
        entry._replace(
            id=f"another-{entry.id}", time=entry.time + later, digest=f"{nth}", conversation="another"
        )
        for nth, entry in enumerate(made)
    ]


def _remade(entry: Entry, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Entry:
    if isinstance(entry.event, Unknown):
        return entry
    topic, payload = REGISTRY.dump(entry.event)
    return entry._replace(event=REGISTRY.load(topic, json.dumps(change(json.loads(payload))).encode()))


def found(comparison: Comparison) -> tuple[int, int]:
    first = comparison.first
    return (first.before, first.after) if first else (0, 0)


@seeds(10, slow=200)
def test_a_planted_difference_is_found_at_its_step_and_swaps_are_none(seeds: range, tmp_path: Path) -> None:
    missed = []
    for seed in seeds:
        pair = planted(seed, tmp_path)
        comparison = compare(pair.before, pair.after)
        back = compare(pair.after, pair.before)
        if found(comparison) != pair.at or found(back) != pair.at[::-1]:
            missed.append((seed, pair.kind, pair.at, found(comparison), found(back)))

    assert missed == []


@seeds(10, slow=40)
def test_of_two_requests_only_what_only_one_run_said_or_did_differs(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        pair = planted(seed, tmp_path)
        found = compare(pair.before, pair.after)
        same = set(found.twins), set(found.twins.values())
        answers = [*found.twins.items(), *((each.before, each.after) for each in found.divergences)]
        for before, after in answers:
            requests = _requests(pair, before, after)
            for change in prompt_difference(*requests, pair[:2], found).changes if requests else ():
                known = same[change.sign != "-"]
                where = [each for each in range(change.first, change.last + 1) if each not in known]
                assert where or not change.first, (seed, before, after, change)


def _requests(pair: Planted, before: int, after: int) -> tuple[Request, Request] | None:
    """Return the requests before an answer that both runs have, without a policy: it cuts by position."""
    made = []
    for log, position in ((pair.before, before), (pair.after, after)):
        event = log[position - 1].event if position else None
        if not isinstance(event, AssistantMessage) or event.receipt is None:
            return None
        entries = log[: event.receipt.view]
        with suppress(StenologError):
            made.append(build(entries, event.agent, task=event.task, policy=FullHistory(), api="anthropic"))
    return (made[0], made[1]) if len(made) == 2 and all(each.ready for each in made) else None


@seeds(2, slow=20)
def test_each_run_leaves_the_majority_at_its_own_difference(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        pair = planted(len(KINDS) * seed + seed % 4, tmp_path)
        same = [renamed(Random(n), swapped(Random(n), [*pair.before], 0)[0]) for n in range(3)]

        found = majority([pair.before, *same, pair.after])

        firsts = {each.run: each.comparison.first for each in found.others}
        assert found.run < 4
        assert [run for run, first in firsts.items() if first] == [4]
        assert {each.stay for each in found.others if each.run == 4} == {4}
        assert firsts[4] is not None
        assert firsts[4].after == pair.at[1]

"""Pairs of runs with one planted difference: made from the simulation's stories, or run twice by a team."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import stenolog
from stenolog import (
    AssistantMessage,
    Entry,
    LlmError,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.domain.codec import REGISTRY
from stenolog.engine import Agent, Parallel, Team
from stenolog.errors import StenologError
from stenolog.events import CallRef, Control, Unknown
from stenolog.models import ModelRequest, Scripted
from stenolog.requests import build
from tests.simulation import actions
from tests.simulation.simulation import Run, play
from tests.virtual_time import run as in_virtual_time

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


def crew(seed: int, other: str = "", persona: str = "You are bob.") -> Team:
    """Return two agents whose models answer by what they have read, and whose tools take random times.

    `other` is a result that the tool has in another form.
    """
    random = Random(seed)

    def agent(name: str, persona: str) -> Agent:
        def answer(request: ModelRequest) -> list[Any]:
            read = {*re.findall(rf"result-{name}-\w+|order-\w+", json.dumps(request.body))}
            key = short_digest(name, sorted(read))
            calls = int(key[0], 16) % 3 if len(read) < 9 else 0
            each = [
                (f"call_{random.randrange(10**9):09}x", json.dumps({"n": n, "key": key}))
                for n in range(calls)
            ]
            called = [ToolCall(id=id, name="look", arguments=arguments) for id, arguments in each]
            return [TextPart(f"{name} has read {key}"), *called]

        async def look(n: int, key: str) -> str:
            """Look."""
            await asyncio.sleep(5 * random.random())
            found = f"result-{name}-{short_digest(n, key)}"
            return f"{found}-otherwise" if found == other else found

        return Agent(name, llm=Scripted(answer, endless=True), tools=[look], persona=persona)

    return Team([agent("ann", "You are ann."), agent("bob", persona)], turns=Parallel())


def short_digest(*what: object) -> str:
    """Return a few digits that stand for something."""
    return sha256(repr(what).encode()).hexdigest()[:6]


def played(log: stenolog.Log, name: str, team: Team, orders: Sequence[str]) -> list[Entry]:
    """Return the entries of a run in which each order is worked on until all are at rest."""

    async def main() -> None:
        for order in orders:
            async for _ in team.run(log[name], order):
                pass

    in_virtual_time(main(), 10_000)
    return [*log[name].entries()]

"""Actions of people and programs on a log in a simulation, each at its time and by one of the processes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from stenolog import AssistantMessage, Entry, Event, ModeSwitch, UserMessage
from stenolog.engine import Agent, OnInput, PendingApproval, compact, regenerate
from stenolog.errors import InvalidEventError
from stenolog.events import PositionRange
from stenolog.importers import import_file

from .process import Process
from .world import World

GAPS = (0.0, 0.01, 0.1, 0.5, 2.0, 20.0, 70.0)
ON_INPUT: tuple[OnInput, ...] = ("next", "next", "queue", "cancel")


class Action(NamedTuple):
    """One action of the simulation.

    It has a number, the seconds since the one before, its kind, the process that does it, and a number that
    picks the message, call or conversation.
    """

    number: int
    gap: float
    what: str
    process: int
    which: int


class Stage(Protocol):
    """The simulation, as far as an action knows it."""

    folder: Path
    names: list[str]
    world: World

    async def within(self, process: Process, work: Callable[[], list[Entry]]) -> list[Entry]:
        """Do something in a thread of the process."""

    def run(
        self, process: Process, name: str, message: str | None, id: str, on_input: OnInput, leaves: int = 0
    ) -> None:
        """Have a process run a conversation, from now on; its caller `leaves` after so many events."""

    def kill(self, process: Process) -> None:
        """Kill a process."""

    def alone(self, agent: str) -> Agent:
        """Return an agent for work in a fork."""


Deed = Callable[[Stage, Process, int, int], Awaitable[list[Entry]]]
DEEDS: dict[str, tuple[int, Deed]] = {}
"""The kinds of action with their weights."""


def script(seed: int) -> list[Action]:
    """Return the actions of a seed; the first one says something."""
    random = Random(seed)
    processes = random.randint(2, 4)
    names, weights = list(DEEDS), [weight for weight, _ in DEEDS.values()]
    kinds = ["say", *random.choices(names, weights, k=random.randint(3, 9))]
    return [
        Action(number, random.choice(GAPS), what, random.randrange(processes), random.randrange(1000))
        for number, what in enumerate(kinds)
    ]


def action(weight: int) -> Callable[[Deed], Deed]:
    """Register an action under its function's name."""

    def add(deed: Deed) -> Deed:
        DEEDS[deed.__name__] = weight, deed
        return deed

    return add


def _name(stage: Stage, which: int) -> str:
    return stage.names[(which // 7) % len(stage.names)] if which % 3 else stage.names[0]


@action(6)
async def say(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Say something, and run the conversation."""
    to = ("", "@ann ", "@bob ", "@ann @bob ")[which % 4]
    stage.run(process, _name(stage, which), f"{to}message {number}", f"m{number}", ON_INPUT[which // 4 % 4])
    return []


@action(2)
async def go_on(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Run the conversation without a word."""
    stage.run(process, _name(stage, which), None, "", "next")
    return []


@action(2)
async def look_in(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Say something, perhaps, and leave the run in its middle."""
    message = f"message {number}" if which % 2 else None
    stage.run(process, _name(stage, which), message, f"m{number}", "next", leaves=1 + which // 4 % 6)
    return []


@action(3)
async def send(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Say something, and leave the work to others."""
    conversation = process.log[_name(stage, which)]
    to = ("", "@ann ", "@bob ")[which % 3]
    words = f"{to}note {number}"
    return await process.team.send(conversation, words, id=f"m{number}", on_input=ON_INPUT[which // 3 % 4])


@action(2)
async def cancel(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Stop all that are at work, or one of them."""
    agent = ("", "", "ann", "bob")[which % 4]
    return await process.team.cancel(process.log[_name(stage, which)], agent)


@action(2)
async def resume(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Tell all that have failed to go on."""
    return await process.team.resume(process.log[_name(stage, which)])


@action(4)
async def decide_calls(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Approve, answer or reject what waits for it, some of it with other arguments."""
    done: list[Entry] = []
    for call in await process.team.pending_approvals(process.log[_name(stage, which)]):
        done += await decided(stage, process, call, which)
    return done


async def decided(stage: Stage, process: Process, call: PendingApproval, which: int) -> list[Entry]:
    """Approve, answer or reject a call."""
    team, conversation = process.team, process.log[call.conversation]
    if which % 4 == 0:
        return await team.reject(conversation, call.call)
    if call.question is None:
        return await team.approve(conversation, call.call, None if which % 2 else {})
    choices = call.question.choices
    value = choices[which % len(choices)] if choices else which
    stage.world.answers[call.question.text].append(value)
    return await team.answer(conversation, call.call, value)


@action(2)
async def edit(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Put other words in the place of a person's message."""

    def work() -> list[Entry]:
        conversation = process.log[_name(stage, which)]
        said = [
            e.position for e in conversation.entries() if isinstance(e.event, UserMessage) and e.event.text
        ]
        if not said:
            return []
        return conversation.submit(UserMessage(text=f"edit {number}", replaces=said[which % len(said)]))

    return await stage.within(process, work)


@action(2)
async def change(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Hide something, begin the context later, take an agent out or in again, or give it another task."""

    def work() -> list[Entry]:
        conversation = process.log[_name(stage, which)]
        if not (here := conversation.position):
            return []
        place = 1 + which % here
        members = conversation.state().members
        switches: Sequence[Event] = (
            ModeSwitch(hides=[PositionRange(first=place, last=min(place + 2, here))]),
            ModeSwitch(context_from=place),
            ModeSwitch(leaves=["bob"]) if "bob" in members else ModeSwitch(joins=["bob"]),
            ModeSwitch(mode=("chat", "agent")[which % 2], title=f"title {number}"),
        )
        return conversation.submit(switches[which // 3 % len(switches)])

    return await stage.within(process, work)


@action(1)
async def summarise(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Put a summary in the place of the first entries, as far as that may be."""

    def work() -> list[Entry]:
        conversation = process.log[_name(stage, which)]
        if (here := conversation.position) < 4:
            return []
        last = 2 + which % (here - 2)
        covers = [PositionRange(first=2, last=last)]
        return conversation.submit(
            AssistantMessage(agent="ann", purpose="summary", covers=covers, text=f"summary {number}")
        )

    return await stage.within(process, work)


@action(2)
async def fork(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Fork a conversation somewhere, and go on there."""
    name, made = _name(stage, which), f"fork-{number}"

    def work() -> list[Entry]:
        conversation = process.log[name]
        if here := conversation.position:
            conversation.fork(1 + which % here, made, "keep" if which % 5 == 0 else "close")
            stage.names.append(made)
        return []

    await stage.within(process, work)
    if made in stage.names:
        stage.run(process, made, f"@ann message {number}" if which % 2 else None, f"m{number}", "next")
    return []


@action(1)
async def import_(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Import a transcript, and say something to it."""
    name = f"import-{number}"

    def work() -> list[Entry]:
        path = stage.folder / f"{name}.json"
        path.write_text(json.dumps(transcript(which)))
        report = import_file(process.log, path, name=name)
        stage.names += [each.name for each in report.conversations if each.name not in stage.names]
        return []

    await stage.within(process, work)
    stage.run(process, name, f"@ann message {number}", f"m{number}", "next")
    return []


def transcript(which: int) -> list[dict[str, object]]:
    """Return a conversation in OpenAI's form, with a call that was not answered in every other one."""
    call = {"id": "x1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    told: list[dict[str, object]] = [
        {"role": "user", "content": "Look at it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    result: list[dict[str, object]] = (
        [{"role": "tool", "tool_call_id": "x1", "content": "a cat"}] if which % 2 else []
    )
    return [*told, *result, {"role": "assistant", "content": "It is a cat."}] if which % 2 else told


@action(2)
async def take_claims(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Take the effects of a conversation from whoever is at them, as a person does from what hangs."""
    name = _name(stage, which)

    def work() -> list[Entry]:
        if name in process.log:
            process.log.take_claims(name)
        return []

    await stage.within(process, work)
    if which % 2:
        stage.run(process, name, None, "", "next")
    return []


@action(1)
async def answer_anew(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Have an answer made anew, in its place or in a fork."""
    conversation = process.log[_name(stage, which)]
    answers: list[tuple[int, str]] = []

    def work() -> list[Entry]:
        events = ((entry.position, entry.event) for entry in conversation.entries())
        said = ((at, event) for at, event in events if isinstance(event, AssistantMessage))
        answers.extend((at, event.agent) for at, event in said if event.purpose == "answer")
        return []

    await stage.within(process, work)
    mine = [(position, agent) for position, agent in answers if agent in ("ann", "bob")]
    if not mine:
        return []
    position, agent = mine[which % len(mine)]
    made = await regenerate(
        conversation, position, stage.alone(agent), ("", f"wish {number}")[which % 2], in_place=which % 3 > 0
    )
    return [made]


@action(1)
async def condense(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Have the middle of a conversation summarised."""
    conversation = process.log[_name(stage, which)]
    made = await compact(conversation, ("ann", "bob")[which % 2], stage.alone("zoe"), over=1, keep=which % 4)
    return [made] if made else []


@action(1)
async def erase(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Erase what an entry says; a setting, and what a fork inherits, is refused."""

    def work() -> list[Entry]:
        conversation = process.log[_name(stage, which)]
        if here := conversation.position:
            with suppress(InvalidEventError):
                conversation.erase(1 + which % here, reason=f"erasure {number}", by="somebody")
        return []

    return await stage.within(process, work)


@action(3)
async def kill(stage: Stage, process: Process, number: int, which: int) -> list[Entry]:
    """Kill the process."""
    stage.kill(process)
    return []

"""The part of a request that its provider has seen already: bytes that begin as those of the request before.

A hundred turns with a tool each, 200 requests, the last of 0.41 million characters with the full history; at
most 16,000 tokens. The peers were measured on work of this size, with their own texts.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from random import Random
from typing import Any, NamedTuple, TypeAlias

from benchmarks._ratio import Row
from stenolog import AgentCard, AssistantMessage, Entry, Event, ModeSwitch, Request, ToolCall, ToolResult
from stenolog import UserMessage as Said
from stenolog.context import Budget, FullHistory, LastN, MissedMessages, Pins, Prompt, Reminder
from stenolog.domain.policy import PolicyLike
from stenolog.events import WorkflowRun
from stenolog.projections.requests import every_request
from stenolog.testing import entries
from tests.requests.judging import MODELS, weighed

BUDGET = 16_000
LIMIT = 0.08
"""The share of the bytes sent that may be new: 92 % are a prefix of the request before."""
WORDS = ("log", "agent", "software", "reads", "file", "error", "test", "value", "path", "request", "build")
PEERS = (
    "peers on work of this size: trimming at each request 87.7 %, LangChain trim_messages 44.7 %, "
    "agent-framework 9.0 to 88.3 %"
)

Under: TypeAlias = tuple[Sequence[Entry], PolicyLike]
"""A log, and the policy that it is read under."""


class Sent(NamedTuple):
    """The bytes sent in all and the new ones among them; the requests, those over budget, the cuts."""

    bytes: int
    new: int
    requests: int
    over: int
    cuts: int

    @property
    def share(self) -> float:
        return self.new / self.bytes


def run() -> Iterable[Row]:
    log = entries(*talk(100))
    added = sum(request.size.tokens for request in list(every_request(log, "coder"))[-1:])
    full = sent(log, FullHistory())
    ours = sent(log, Budget(tokens=BUDGET))
    note = f"{ours.requests} requests, {ours.bytes / 1e6:.1f} MB; {PEERS}"
    yield Row(f"cache: new bytes under {BUDGET:,} tokens", ours.share, LIMIT, "", note)
    yield Row("cache: requests over budget", ours.over, 0, "")
    limit = math.ceil(added / (BUDGET // 2)) + 1
    yield Row("cache: cuts", ours.cuts, limit, "", f"{added:,} tokens added")
    for cut_to in (20, 50, 75, 100):
        other = sent(log, Budget(tokens=BUDGET, cut_to=cut_to))
        note = f"{other.cuts} cuts, {other.bytes / other.requests / 1e3:.0f} kB a request"
        yield Row(f"cache: new bytes where a cut leaves {cut_to} %", other.share, math.inf, "", note)
    note = f"{ours.cuts} cuts, {ours.bytes / ours.requests / 1e3:.0f} kB a request"
    yield Row("cache: new bytes where a cut leaves a third, the default", ours.share, math.inf, "", note)
    budgeted = (log, Budget(tokens=BUDGET))
    anew = sum(said_anew(budgeted, budgeted, api) for api in MODELS)
    yield Row("cache: between cuts, bytes of the conversation sent anew", anew, 0, "B")
    for name, other in (
        ("with the full history", full),
        ("with LastN(50)", sent(log, LastN(50))),
        ("with LastN(50, step=25)", sent(log, LastN(50, step=25))),
    ):
        yield Row(f"cache: new bytes {name}", other.share, math.inf, "", f"{other.bytes / 1e6:.1f} MB")
    yield from what_notes_cost()


def what_notes_cost() -> Iterator[Row]:
    """Measure the bytes that a change around the conversation makes a provider read again, on all APIs."""
    base = Prompt(base="Be brief. " * 20)
    modes = {"chat": "Talk. " * 40, "agent": "Work. " * 40}
    late = Prompt(base=base.base, modes=modes, banner="Mode: {mode}")
    first = Prompt(base=base.base, modes=modes, banner="Mode: {mode}", place="first")
    reminder = base | Reminder(10) | Pins(positions=(2,))
    quiet, switched, away = (entries(*between(30, events)) for events in (QUIET, SWITCHES, TO_OTHERS))
    for name, (log, policy), (alone, under), limit in (
        ("a mode there and back, a run, a hand-off", (switched, late), (quiet, base), 0),
        ("a reminder every 10 answers", (quiet, reminder), (quiet, base), 0),
        (
            "what was said while the agent was away",
            (away, base | MissedMessages()),
            (away, base | MissedMessages()),
            0,
        ),
        ('modes, run and hand-off with place="first"', (switched, first), (switched, first), math.inf),
    ):
        anew = sum(said_anew((log, policy), (alone, under), api) for api in MODELS)
        yield Row(f"cache: bytes of the conversation sent anew for {name}", anew, limit, "B")


def sent(log: Sequence[Entry], policy: PolicyLike) -> Sent:
    """Return the part of the requests under a policy that is new to a provider's cache."""
    before, new, size, number, over, cuts = b"", 0, 0, 0, 0, 0
    for request in every_request(log, "coder", policy=policy):
        if request.sendable:
            new += len(request.bytes) - common(request.bytes, before)
            size += len(request.bytes)
            over += weighed(request).tokens > BUDGET
            number, cuts, before = number + 1, request.cuts, request.bytes
    return Sent(size, new, number, over, cuts)


def said_anew(sent: Under, alone: Under, api: str) -> int:
    """Return the bytes of the conversation that the next request does not begin with.

    `alone` is the same conversation without the text around it.
    """
    (log, policy), (quiet, base) = sent, alone
    told = every_request(log, "coder", policy=policy, api=api)
    within = every_request(quiet, "coder", policy=base, api=api)
    pairs = [(whole, part) for whole, part in zip(told, within, strict=True) if whole.sendable]
    anew = 0
    for (before, part), (after, _) in pairwise(pairs):
        if before.cuts == after.cuts:
            said = conversation(part)
            anew += sum(map(len, said[common(said, conversation(after)) :]))
    return anew


def conversation(request: Request) -> list[bytes]:
    """Return the messages of a request, part by part, without the marks of what a provider may cache."""
    said = request.body[request.messages_key]
    return [json.dumps(part).encode() for message in said for part in parts(message)]


def parts(message: dict[str, Any]) -> Iterator[object]:
    """Yield the parts of a message, each with its role; a message of one text is one."""
    inside = next((key for key in ("content", "parts") if isinstance(message.get(key), list)), "")
    rest = {key: value for key, value in message.items() if key != inside}
    for part in message.get(inside, [{}]):
        yield rest, {key: value for key, value in part.items() if key != "cache_control"}


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the length of the common beginning of two texts, or of two lists."""
    return bisect_left(range(1, min(len(one), len(other)) + 1), True, key=lambda n: one[:n] != other[:n])


def talk(turns: int, seed: int = 1) -> Iterator[Event]:
    """Yield turns of a question, a call, its result and an answer: 4,100 characters of a request each."""
    random = Random(seed)
    yield ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2")}, joins=["coder"])
    for turn in range(turns):
        yield Said(text=text(random, 300))
        yield called(turn, random)
        yield ToolResult(call_id=f"c{turn}", text=text(random, 2_430))
        yield AssistantMessage(agent="coder", text=text(random, 900))


def between(turns: int, told: Sequence[Event]) -> Iterator[Event]:
    """Yield the same turns, with a card, and one of these events after each turn."""
    yield ModeSwitch(
        cards={"coder": AgentCard(model="gpt-5.2", persona="You write code.")}, joins=["coder", "reviewer"]
    )
    events = islice(talk(turns), 1, None)
    for turn in range(turns):
        yield from islice(events, 4)
        yield told[turn % len(told)]


QUIET = (ModeSwitch(title="The log"),)
SWITCHES = (
    ModeSwitch(mode="agent"),
    ModeSwitch(mode="chat", handoff="The reviewer found nothing."),
    ModeSwitch(mode="run", active_run=WorkflowRun(id="r1", directive="Release it", brief="Build the wheel")),
    ModeSwitch(mode="chat", active_run=None, handoff=None),
)
TO_OTHERS = (
    Said(text="Reviewer, have a look.", to=["reviewer"]),
    AssistantMessage(agent="reviewer", text="Two remarks.", to=["user"]),
)


def called(turn: int, random: Random) -> AssistantMessage:
    """Return a call of a tool, with a few words before it."""
    call = ToolCall(id=f"c{turn}", name="shell", arguments=json.dumps({"cmd": text(random, 120)}))
    return AssistantMessage(agent="coder", text=text(random, 100), tool_calls=[call])


def text(random: Random, characters: int) -> str:
    """Return words of that many characters together."""
    return " ".join(random.choice(WORDS) for _ in range(characters))[:characters]

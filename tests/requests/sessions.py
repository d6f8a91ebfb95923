"""Long sessions as teams of agents really have them: a log of any length that depends on its seed alone.

Questions to one of several agents, tools in parallel, errors of tools and models, interruptions, edits,
summaries, hand-offs, changes of mode. Unlike `histories`, what is in them could have been recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from random import Random

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.domain.policy import Policy
from stenolog.events import Control, PositionRange
from stenolog.parts import ReasoningPart
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.window import Window
from tests.requests.histories import START

AGENTS = ("coder", "reviewer", "writer")
TOOLS = ("shell", "read_file", "edit_file", "search")
SAID = (
    "the ledger counts every row twice when a batch is retried so look at the parser first and then at "
    "what the test expects проверь отчёт ещё раз и скажи почему сумма не сходится"
)
WORDS = SAID.split()


def session(seed: int, length: int) -> list[Event]:
    """Return so many events of one session."""
    return list(islice(_Session(Random(seed)).events(), length))


def session_log(seed: int, length: int) -> list[Entry]:
    """Return the same as entries, as `given.log` numbers them."""
    return [Entry("talk", i, f"e{i}", START, "", event) for i, event in enumerate(session(seed, length), 1)]


def late_results(seed: int, length: int) -> list[Entry]:
    """Return random turns of a coder and a tester, whose calls may get a result late, or none."""
    random, events, waiting = Random(seed), list[Event](), list[ToolCall]()
    for nth in range(length):
        kind = random.random()
        if kind < 0.35:
            events.append(UserMessage(text=f"{nth}", tags=["goal"] if kind < 0.01 else []))
        elif kind < 0.7:
            made = [
                ToolCall(id=f"{nth}-{i}", name=random.choice("abc"), arguments="{}") for i in range(nth % 4)
            ]
            agent = "tester" if kind > 0.65 else "coder"
            events.append(AssistantMessage(agent=agent, text=f"{nth}", tool_calls=made))
            waiting += made
        elif waiting:
            call = waiting.pop(random.randrange(len(waiting)) if kind > 0.9 else 0)
            events.append(ToolResult(call_id=call.id, name=call.name, text=f"{nth}"))
    return [Entry("talk", i, f"e{i}", START, "", event) for i, event in enumerate(events, 1)]


def conversation(seed: int, turns: int) -> list[Event]:
    """Return a conversation with one agent, in which each answer keeps its request's receipt.

    A turn is a question, an answer that calls tools, their results, and an answer.
    """
    session = _Session(Random(seed))
    kept = Window(LaneId("coder"), Policy(), COUNTERS[Policy().counter])
    live = RequestSession(kept, "openai-chat")
    log: list[Event] = []
    for event in session.turns("coder", turns):
        if isinstance(event, AssistantMessage):
            event = replace(event, receipt=live.request().receipt)
        log.append(event)
        kept.take(Entry("talk", len(log), f"e{len(log)}", START, "", event))
    return log


class _Session:
    """What has been said so far, as far as what comes next depends on it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.position = 0
        self.asked = 0
        self.since = 1
        self.ids = count(1)

    def events(self) -> Iterator[Event]:
        """Turn after turn, without an end."""
        opening = ModeSwitch(mode="chat", joins=AGENTS, cards={agent: _card(agent) for agent in AGENTS})
        for event in chain([opening], chain.from_iterable(self._turn() for _ in count())):
            self.position += 1
            yield event

    def turns(self, agent: str, number: int) -> Iterator[Event]:
        """Yield so many turns of one agent, each with one or two calls."""
        yield ModeSwitch(mode="chat", joins=[agent], cards={agent: _card(agent)})
        for turn in range(number):
            calls = [self._call() for _ in range(1 + turn % 2)]
            yield UserMessage(text=self._words(40), author="Ada", to=(agent,))
            yield self._answer(agent, *calls)
            for call in calls:
                yield ToolResult(call_id=call.id, name=call.name, text=self._words(60))
            yield self._answer(agent, TextPart(text=self._words(60)))

    def _turn(self) -> Iterator[Event]:
        random = self.random
        if random.random() < 0.03:
            yield ModeSwitch(mode=random.choice(("chat", "agent")))
        agent = random.choice(AGENTS)
        edit = self.asked if self.asked and random.random() < 0.02 else None
        self.asked = self.position + 1
        yield UserMessage(text=self._words(40), author="Ada", to=(agent,), replaces=edit)
        for _ in range(random.randint(0, 4)):
            if random.random() < 0.04:
                yield LlmError(agent=agent, category="overloaded", message="try again", text=self._words(3))
            yield from self._step(agent)
        if random.random() < 0.03:
            yield UserMessage(text="Stop", to=(agent,), control=Control(action="cancel"))
        else:
            yield self._answer(agent, TextPart(text=self._words(60)))
        if random.random() < 0.02:
            yield self._summary(agent)

    def _step(self, agent: str) -> Iterator[Event]:
        """Yield an answer that calls tools, and most of their results, in any order."""
        random = self.random
        calls = [self._call() for _ in range(random.choice((1, 1, 1, 2, 3)))]
        said = [TextPart(text=self._words(20))] if random.random() < 0.5 else []
        yield self._answer(agent, *said, *calls)
        random.shuffle(calls)
        for call in calls:
            if random.random() < 0.99:
                text = self._words(random.choice((10, 50, 200)))
                yield ToolResult(call_id=call.id, name=call.name, text=text, is_error=random.random() < 0.08)

    def _answer(self, agent: str, *parts: TextPart | ToolCall) -> AssistantMessage:
        thought = ReasoningPart(text=self._words(15), signature="c2ln", provider="anthropic")
        thinks = [thought] if self.random.random() < 0.3 else []
        return AssistantMessage(agent=agent, parts=[*thinks, *parts], model="claude-opus-5")

    def _call(self) -> ToolCall:
        arguments = f'{{"path": "src/{next(self.ids)}.py"}}'
        return ToolCall(id=f"call_{next(self.ids)}", name=self.random.choice(TOOLS), arguments=arguments)

    def _summary(self, agent: str) -> AssistantMessage:
        """Return a summary of a stretch that no summary covers yet."""
        covered = PositionRange(first=self.since, last=min(self.since + 40, self.position))
        self.since = covered.last + 1
        return AssistantMessage(agent=agent, text=self._words(80), purpose="summary", covers=[covered])

    def _words(self, number: int) -> str:
        return " ".join(self.random.choices(WORDS, k=number))


def _card(agent: str) -> AgentCard:
    tools = [Tool(name=name, description=f"{name} it", parameters={"type": "object"}) for name in TOOLS]
    return AgentCard(model="claude-opus-5", persona=f"You are the {agent}. " * 20, tools=tools)


def taken_up(left: Window, entries: Sequence[Entry]) -> Window:
    """Return the window that goes on from another's mark, with the entries that the mark names alone."""
    mark = left.snapshot
    held = [entry for entry in entries if any(a <= entry.position <= b for a, b in mark.rows)]
    return Window(left.lane, left.policy, left.counter, mark, held)

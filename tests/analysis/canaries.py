"""Random conversations in which a canary may take any path to an agent, and the bodies that were really sent.

The log is written as it is sent from: at each step agents may be asked, by their own policy or another, and
answer with a receipt or without, or never. `leaks` judges by the bodies of that moment alone.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

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
from stenolog.context import FullHistory, LastN, Policy, Prompt, SinceLastTurn, policy
from stenolog.errors import StenologError
from stenolog.events import (
    CallRef,
    Control,
    ConversationRef,
    PositionRange,
    ToolQuestion,
    Unknown,
    WorkflowRun,
)
from stenolog.parts import FilePart, ReasoningPart
from stenolog.requests import FORMATS, LaneId, build
from tests.requests.histories import START
from tests.requests.policies import SMALL

CANARY = "the canary 5f3a91c7e2 sings at dawn"
SECRET = f"From the vault.\n{CANARY}\nKeep it."
FILE = SECRET.encode()
SHA = sha256(FILE).hexdigest()
BLOBS = {SHA: FILE}
SPY = "bob"
"""The agent that should never be sent it."""
LANES = (LaneId("ann"), LaneId(SPY), LaneId(SPY, "t1"), LaneId("eve"))
NAMES = ("ann", SPY, f"{SPY}/t1", "eve", "user")
RETELLING = (
    "{}",
    "As I was told: {}.",
    "I quote:\n{}\nand no more.",
    'They wrote "{}" on the wall',
)


class Sending(NamedTuple):
    """A request that was sent: its position, that of its answer (0: none came), and whether it leaked."""

    view: int
    answer: int
    leaked: bool


class Case(NamedTuple):
    """A conversation, the position of the secret, and all that the spy's model was sent."""

    log: list[Entry]
    secret: int
    sent: list[Sending]

    def leaks(self, first: int, last: int) -> list[Sending]:
        """Return what leaked between two positions: it was sent after the first and by the second."""
        return [
            one
            for one in self.sent
            if one.leaked and (first < one.answer <= last or first <= one.view <= last)
        ]


def case(seed: int) -> Case:
    """Return the case that a seed decides."""
    return _Play(Random(seed)).case()


class _Play:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.log: list[Entry] = []
        self.sent: list[Sending] = []
        self.pending: list[tuple[LaneId, Any, bool, bool, bool]] = []
        self.secret = 0
        self.chatty = random.choice((0.0, 0.05, 0.3))
        self.careful = random.random() < 0.6
        self.receipts = random.choice((1.0, 1.0, 0.6))

    def case(self) -> Case:
        random = self.random
        self._say(self._opening())
        length = random.randint(4, 16)
        secret = random.randrange(length)
        for step in range(length):
            self._say(self._secret() if step == secret else self._event())
            if step == secret:
                self.secret = len(self.log)
            self._ask()
            self._answer()
        if random.random() < 0.15:
            self._erase()
        # Of a policy that no answer names, nothing is known.
        lost = [Sending(request.at, 0, leaked) for _, request, _, leaked, own in self.pending if own]
        return Case(self.log, self.secret, self.sent + lost)

    def _say(self, event: Event) -> None:
        position = len(self.log) + 1
        self.log.append(Entry("talk", position, f"e{position}", START, "", event))

    def _text(self) -> str:
        if self.random.random() < self.chatty:
            return self.random.choice(RETELLING).format(CANARY)
        return self.random.choice(("Go on.", "The tests pass.", "Look at the parser first.", "No."))

    def _to(self) -> tuple[str, ...]:
        """Return whom a message is for: mostly not the spy, if people are careful."""
        random = self.random
        if self.careful and random.random() < 0.9:
            return random.choice((("ann",), ("eve",), ("ann", "eve")))
        return tuple(random.sample(NAMES, random.choice((0, 1, 1, 2))))

    def _opening(self) -> ModeSwitch:
        scope: Any = "addressed" if self.careful else self.random.choice(("open", "addressed"))
        cards: dict[str, AgentCard | None] = {name: self._card() for name in ("ann", SPY, "eve")}
        return ModeSwitch(joins=("ann", SPY, "eve"), scope=scope, cards=cards)

    def _card(self) -> AgentCard:
        random = self.random
        chosen: Any = random.choice([{}, {}, policy(SinceLastTurn()), *SMALL.values()])
        tools = (Tool(name="shell", description=self._rarely(), parameters={"type": "object"}),)
        if random.random() < 0.1:
            chosen = Prompt(base=self._rarely())
        return AgentCard(
            model=random.choice(("gpt-5", "claude-opus-5", "gemini-3-pro")),
            persona=f"You work. {self._rarely()}",
            tools=random.choice((None, tools)),
            policy=chosen,
        )

    def _rarely(self) -> str:
        return self._text() if self.random.random() < 0.3 else "Do it."

    def _secret(self) -> Event:
        random, kind = self.random, self.random.random()
        if kind < 0.4:
            return UserMessage(text=SECRET, to=self._to())
        if kind < 0.7:
            return self._result(SECRET)
        if kind < 0.8:
            file = FilePart(name="vault.txt", media_type="text/plain", blob=SHA)
            return UserMessage(parts=[TextPart(text="Here."), file], to=self._to())
        if kind < 0.9:
            name = random.choice(("ann", "ann", "eve", SPY))
            return ModeSwitch(cards={name: replace(self._card(), persona=SECRET)})
        return AssistantMessage(agent="ann", text=SECRET, to=self._to())

    def _event(self) -> Event:
        makers = (self._user, self._user, self._user, self._said, self._said, self._result, self._result)
        more = (self._summary, self._switch, self._error, self._control, self._handed, self._file)
        return self.random.choice((*makers, *more))()

    def _user(self) -> Event:
        edits = self.random.randint(1, len(self.log)) if self.random.random() < 0.1 else None
        parts = [TextPart(text=self._text())]
        if self.random.random() < 0.1:
            half = len(CANARY) // 2
            parts = [TextPart(text=CANARY[:half]), TextPart(text=CANARY[half:])] if self.chatty else parts
        return UserMessage(parts=parts, to=self._to(), replaces=edits, in_context=self.random.random() > 0.05)

    def _said(self) -> Event:
        random, lane = self.random, self.random.choice((LANES[0], LANES[3]))
        path = random.choice(("src/a.py", self._text()))
        arguments = json.dumps({"cmd": path, "inner": json.dumps({"text": self._text()})})
        call = ToolCall(id=f"c{len(self.log)}", name="shell", arguments=arguments)
        purpose: Any = random.choice(("answer", "answer", "answer", "memory", "routing"))
        parts: list[Any] = [ReasoningPart(text=self._text(), provider="anthropic", signature="s")]
        return AssistantMessage(
            agent=lane.agent,
            task=lane.task,
            parts=[
                *parts * random.randint(0, 1),
                TextPart(text=self._text()),
                *[call] * random.randint(0, 1),
            ],
            purpose=purpose,
            to=self._to(),
        )

    def _result(self, text: str = "") -> Event:
        random = self.random
        answers = [one for one in self.log if getattr(one.event, "tool_calls", ())]
        text = text or self._text()
        recalled = [["talk", self.secret]] if self.secret and CANARY in text else []
        meta: dict[str, Any] = {"stenolog": {"recalled": recalled}} if recalled else {}
        if not answers:
            return ToolResult(call_id="none", text=text, to=self._to(), meta=meta)
        chosen = random.choice(answers)
        call = CallRef(entry=chosen.id, index=0)
        return ToolResult(call_id=f"c{chosen.position - 1}", call=call, text=text, meta=meta)

    def _summary(self) -> Event:
        here = len(self.log)
        covers = [PositionRange(first=self.random.randint(1, here), last=here)]
        lane = self.random.choice(LANES)
        said: dict[str, Any] = {"agent": lane.agent, "task": lane.task, "text": self._text()}
        return AssistantMessage(purpose="summary", covers=covers, to=self._to(), **said)

    def _switch(self) -> Event:
        random, here = self.random, len(self.log)
        run = WorkflowRun(id="r", directive=self._rarely(), brief=self._rarely(), context=self._rarely())
        given: dict[str, Any] = random.choice(
            (
                {"mode": "run", "active_run": run},
                {"handoff": self._text(), "agents": random.choice(((), (SPY,), ("ann",)))},
                {"scope": random.choice(("open", "addressed"))},
                {"context_from": random.randint(1, here)},
                {"hides": (PositionRange(first=1, last=random.randint(1, here)),)},
                {"hides": None},
                {"title": self._text()},
                {"cards": {random.choice(("ann", SPY)): self._card()}},
                {
                    "fork": True,
                    "parent": ConversationRef(conversation="whole", position=here, digest="0" * 64),
                },
            )
        )
        return ModeSwitch(**given)

    def _error(self) -> Event:
        lane = self.random.choice(LANES)
        parts = [TextPart(text=self._text())] * self.random.randint(0, 1)
        return LlmError(agent=lane.agent, category="network", message=self._text(), parts=parts)

    def _control(self) -> Event:
        call = CallRef(entry=f"e{self.random.randint(1, len(self.log))}", index=0)
        question = ToolQuestion(text=self._text())
        asks: Any = Control(action="ask", call=call, question=question)
        answers: Any = Control(action="answer", call=call, answer=json.dumps(self._text()))
        return UserMessage(author="ann", author_kind="agent", control=self.random.choice((asks, answers)))

    def _handed(self) -> Event:
        brief = UserMessage(text=self._text(), author="ann", author_kind="agent", to=(SPY,))
        return replace(brief, cause=max(1, len(self.log)), to=self.random.choice(((SPY,), (f"{SPY}/t1",))))

    def _file(self) -> Event:
        if self.random.random() > self.chatty:
            return self._user()
        name = self.random.choice(("notes.txt", "@project/artifacts/notes.txt"))
        file = FilePart(name=name, media_type="text/plain", blob=SHA)
        return UserMessage(parts=[file], to=self._to(), in_context=self.random.random() > 0.3)

    # What is sent.

    def _ask(self) -> None:
        """Ask the model of each lane of the spy, now and then."""
        for lane in LANES[1:3]:
            if self.random.random() > 0.4 or any(lane == waits for waits, *_ in self.pending):
                continue
            has_receipt = self.random.random() < self.receipts
            under: Policy | None = None
            if self.random.random() < 0.3:
                chosen = [*SMALL.values()] if has_receipt else [policy(LastN(3)), policy(FullHistory())]
                under = self.random.choice(chosen)
            # A program that leaves no trace of its call asks as the engine would.
            api = self.random.choice((None, *FORMATS))
            try:
                request = build(
                    self.log, lane.agent, task=lane.task, policy=under, api=api, blobs=BLOBS
                ).check()
            except StenologError:
                continue
            leaked = is_in(request.body)
            if self.random.random() < 0.15:
                if under is None:
                    self.sent.append(Sending(len(self.log), 0, leaked))
                continue
            self.pending.append((lane, request, has_receipt, leaked, under is None))

    def _answer(self) -> None:
        """Answer what was asked; sometimes only after other entries."""
        for waits in [*self.pending]:
            if self.random.random() < 0.2:
                continue
            self.pending.remove(waits)
            lane, request, has_receipt, leaked, _ = waits
            said: dict[str, Any] = {"agent": lane.agent, "task": lane.task}
            said["receipt"] = request.receipt if has_receipt else None
            if self.random.random() < 0.15:
                self._say(LlmError(category="overloaded", message="later", **said))
            else:
                session = self.random.choice(("", "", "s1"))
                text = self._text() if leaked else "Done."
                self._say(AssistantMessage(text=text, session=session, **said))
            self.sent.append(Sending(request.at, len(self.log), leaked))

    def _erase(self) -> None:
        position = self.random.randint(2, len(self.log))
        if not isinstance(self.log[position - 1].event, ModeSwitch):
            gone = Unknown(topic="erased", payload=b"", ignorable=True)
            self.log[position - 1] = self.log[position - 1]._replace(event=gone)


def is_in(body: Any) -> bool:
    """Return whether a body has the canary: its words, also in two parts, or the file with it."""
    written = json.dumps(body, ensure_ascii=False)
    return CANARY in written or b64encode(FILE).decode() in written or CANARY in "".join(_texts(body))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case {"text": str(text)}:
            yield text
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case _:
            pass

"""Events and histories for hypothesis: every field of every event, in any order, however damaged.

Importing this makes hypothesis deterministic: each run tries the same examples.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import JsonValue

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    State,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    decide,
    evolve,
)
from stenolog.domain.base.model import FrozenJson, Integer, Json, Key, Name, Utc
from stenolog.domain.base.value_help import default_of
from stenolog.domain.codec import REGISTRY
from stenolog.domain.lanes.state import LaneState, OpenCall
from stenolog.domain.lanes.step import INITIAL
from stenolog.errors import IllegalCommandError, UnsupportedVersionError
from stenolog.events import CallRef, Control, PositionRange, ToolQuestion
from stenolog.parts import ReasoningPart
from stenolog.testing import START, entries

settings.register_profile("stenolog", derandomize=True, deadline=None, database=None)
settings.load_profile("stenolog")

KINDS: tuple[type[Any], ...] = (UserMessage, AssistantMessage, ToolResult, LlmError, ModeSwitch)
AGENTS = ("coder", "tester", "a b-ü")
TASKS = ("", "", "docs")
ADDRESSES = ("coder", "tester", "coder/docs", "nobody", "", "/", "a b/ü", "a b-ü")
CALL_IDS = ("c1", "c1", "c2", "", "call 3\n")
TOOLS = ("shell", "deploy", "", "no such tool!")
ARGUMENTS = ("{}", '{"cmd": "ls"}', "", "not json", '{"cut": "of', "[1]")
POSITIONS = st.integers(1, 16)
CAREFUL = ModeSwitch(
    joins=["coder", "tester"], cards={"coder": AgentCard(tools=[Tool(name="deploy", approval=True)])}
)
ASKED = UserMessage(text="Go", to=["coder"])
CALLED = AssistantMessage(
    agent="coder", tool_calls=[ToolCall(id="c1", name="shell"), ToolCall(id="c1", name="deploy")]
)
WHICH = ToolQuestion(text="Which?", choices=("1", "2"))


def asking(lane: str, call: CallRef, question: ToolQuestion = WHICH) -> UserMessage:
    """Return the message by which a call of a lane asks a person."""
    control = Control(action="ask", call=call, question=question)
    return UserMessage(author=lane, author_kind="agent", control=control)


def unions(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; anything else as its only member."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def texts() -> SearchStrategy[str]:
    """Return short texts, of all that UTF-8 can hold."""
    return st.text(max_size=6)


def json_values() -> SearchStrategy[JsonValue]:
    """Return JSON of a few levels."""
    numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    leaves: SearchStrategy[JsonValue] = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts(), inner, max_size=2),
        max_leaves=4,
    )


def times() -> SearchStrategy[datetime]:
    """Return aware times, in UTC, over all that a datetime can hold."""
    return st.datetimes(timezones=st.just(UTC))


def of(hint: Any) -> SearchStrategy[Any]:
    """Return every value that a field of that type can have."""
    if hint in (str, Key):
        return texts()
    if hint == Name:
        return texts().filter(lambda text: text != "" and "/" not in text)
    if hint is bool:
        return st.booleans()
    if hint is NoneType:
        return st.none()
    if hint == Integer:
        return st.integers(-(2**63), 2**63 - 1)
    if hint == Utc:
        return times()
    if hint in (Json, FrozenJson):
        return st.dictionaries(texts(), json_values(), max_size=2)
    return _composed(hint)


def _composed(hint: Any) -> SearchStrategy[Any]:
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        return of(arguments[0])
    if get_origin(hint) is Literal:
        return st.sampled_from(arguments)
    if get_origin(hint) is tuple:
        return st.lists(of(arguments[0]), max_size=2).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(of(arguments[0]), of(arguments[1]), max_size=2)
    if len(unions(hint)) > 1:
        return st.one_of([of(member) for member in unions(hint)])
    return values(hint)


def values(cls: type[Any]) -> SearchStrategy[Any]:
    """Return values of a class, with any of its fields given."""
    if cls is PositionRange:
        return st.builds(PositionRange, first=st.integers(1, 2**63 - 1), last=st.integers(1, 2**63 - 1))
    hints = get_type_hints(cls, include_extras=True)
    needed = {each.name: default_of(each) is MISSING for each in fields(cls)}
    required = {name: of(hints[name]) for name in needed if needed[name]}
    optional = {name: of(hints[name]) for name in needed if not needed[name]}
    if cls is AgentCard:  # its policy is checked
        optional["policy"] = st.sampled_from(({}, {"history": {"kind": "last", "n": 3}}))
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: cls(**given))


@cache
def unknowns() -> SearchStrategy[Event]:
    """Return events of kinds and versions that this release does not know."""
    payloads = st.binary(max_size=12) | st.sampled_from(
        (
            b"{}",
            b'{"ignorable":true}',
            b'{"ignorable":1,"needs":7}',
            b'{"needs":"9.1"}',
            b'{"needs":"\\ud800"}',
        )
    )
    topics = st.sampled_from(("user_message@2", "poll@1", "assistant_message@99"))
    return st.builds(REGISTRY.load, topics, payloads)


@cache
def events() -> SearchStrategy[Event]:
    """Return events of every kind with any of their fields, and unknown ones."""
    return st.one_of(*map(values, KINDS), unknowns())


def histories(max_size: int = 16) -> SearchStrategy[list[Event]]:
    """Return events in any order: ids twice, calls unanswered, positions yet to come.

    As `stenolog.testing.entries` takes them: the entry at position n has the id `e<n>`.
    """
    event = st.one_of(_asked(), _said(), _said(), _resulted(), _erred(), _switched(), unknowns())
    begun: SearchStrategy[list[Event]] = st.sampled_from(([], [CAREFUL, ASKED, CALLED]))
    return st.builds(lambda first, rest: (first + rest)[:max_size], begun, st.lists(event, max_size=max_size))


def logs(max_size: int = 16) -> SearchStrategy[list[Entry]]:
    """Return histories as they stand in a log."""
    return histories(max_size).map(lambda history: entries(*history))


@st.composite
def decided(draw: st.DrawFn, max_size: int = 16, asks: bool = False) -> list[Event]:
    """Return the events that `decide` made of random commands, one after the other; `asks`: tools ask too."""
    history: list[Event] = []
    state = INITIAL
    commands: list[Event] = [CAREFUL, ASKED, CALLED] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, max_size))):
        try:
            recorded = decide(state, commands.pop(0) if commands else draw(_command()))
        except (IllegalCommandError, UnsupportedVersionError):
            continue
        for event in recorded:
            position = len(history) + 1
            history.append(event)
            state = evolve(state, Entry("demo", position, f"e{position}", START, "", event))
        commands = commands or _apt(state, draw(st.integers(0, 30)), asks)
    return history


def _apt(state: State, choice: int, asks: bool) -> list[Event]:
    """Return one of the commands that fit the state, or none."""
    apt: list[Event] = [UserMessage(control=Control(action="cancel")), ASKED, CALLED]
    if asks and choice > 12 and (open_calls := state.open_calls()):
        return [_question_or_answer(*open_calls[choice % len(open_calls)])]
    for _, call in state.open_calls():
        ref = CallRef(entry=call.entry, index=call.nth)
        apt += [ToolResult(call_id=call.id, call=ref), ToolResult(call_id=call.id)]
        apt += [UserMessage(control=Control(action="approve", call=ref))] * call.approval
        apt += [UserMessage(control=Control(action="refuse", call=ref))] * call.waits
    for lane in state.lanes.values():
        apt.append(UserMessage(control=Control(action="continue", agent=lane.agent, task=lane.task)))
        apt += [ModeSwitch(leaves=[lane.agent]), ModeSwitch(joins=[lane.agent])]
    return apt[choice : choice + 1]


def _question_or_answer(lane: LaneState, call: OpenCall) -> Event:
    ref = CallRef(entry=call.entry, index=call.nth)
    if not call.question:
        return asking(lane.address, ref)
    return UserMessage(control=Control(action="answer", call=ref, answer="1"))


@cache
def _command() -> SearchStrategy[Event]:
    return st.one_of(_asked(), _said(), _said(), _erred(), _switched())


def _some(strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return values that are None more often than not."""
    return st.none() | st.none() | strategy


@cache
def _calls() -> SearchStrategy[CallRef]:
    begun = st.sampled_from((CallRef(entry="e3", index=0), CallRef(entry="e3", index=1)))
    return begun | st.builds(CallRef, entry=POSITIONS.map("e{}".format), index=st.integers(0, 2))


@cache
def _spans() -> SearchStrategy[tuple[PositionRange, ...]]:
    return st.lists(st.builds(PositionRange, first=POSITIONS, last=POSITIONS), max_size=2).map(tuple)


@cache
def _parts() -> SearchStrategy[tuple[Any, ...]]:
    part = st.one_of(
        st.builds(TextPart, text=st.sampled_from(("Hello", "", "User: hi"))),
        st.builds(
            ToolCall,
            id=st.sampled_from(CALL_IDS),
            name=st.sampled_from(TOOLS),
            arguments=st.sampled_from(ARGUMENTS),
        ),
        st.just(ReasoningPart(text="Hm.")),
    )
    return st.lists(part, max_size=3).map(tuple)


def _to() -> SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(st.sampled_from(ADDRESSES), max_size=2).map(tuple)


@cache
def _asked() -> SearchStrategy[UserMessage]:
    control = st.builds(
        Control,
        action=st.sampled_from(("approve", "refuse", "cancel", "continue")),
        call=_some(_calls()),
        agent=st.sampled_from(("", *AGENTS)),
        task=st.sampled_from(TASKS),
    )
    return st.builds(
        UserMessage,
        text=st.sampled_from(("Hello", "", "Go on")),
        author_kind=st.sampled_from(("person", "person", "system", "schedule", "agent")),
        to=_to(),
        control=_some(control),
        replaces=_some(POSITIONS),
        in_context=st.sampled_from((True, True, True, False)),
    )


@cache
def _said() -> SearchStrategy[AssistantMessage]:
    return st.builds(
        AssistantMessage,
        agent=st.sampled_from(AGENTS),
        task=st.sampled_from(TASKS),
        parts=_parts(),
        purpose=st.sampled_from(("answer", "answer", "answer", "summary", "memory", "routing")),
        covers=_spans() | st.just(()),
        to=_to(),
        replaces=_some(POSITIONS),
        session=st.sampled_from(("", "s1")),
    )


@cache
def _resulted() -> SearchStrategy[ToolResult]:
    return st.builds(
        ToolResult,
        call_id=st.sampled_from(CALL_IDS),
        call=_some(_calls()),
        to=_to(),
        text=st.just("Done"),
        is_error=st.booleans(),
    )


@cache
def _erred() -> SearchStrategy[LlmError]:
    return st.builds(
        LlmError,
        agent=st.sampled_from(AGENTS),
        task=st.sampled_from(TASKS),
        category=st.sampled_from(("timeout", "rate_limited", "cancelled")),
        parts=_parts(),
        attempt=st.integers(1, 3),
        retry_at=_some(times()),
    )


@cache
def _switched() -> SearchStrategy[ModeSwitch]:
    agents = st.lists(st.sampled_from(AGENTS), max_size=2).map(tuple)
    tools = st.lists(st.builds(Tool, name=st.sampled_from(TOOLS), approval=st.booleans()), max_size=2)
    cards = st.none() | st.builds(AgentCard, model=st.sampled_from(("", "gpt-5")), tools=st.none() | tools)
    given: dict[str, SearchStrategy[Any]] = {
        "agents": agents,
        "mode": st.sampled_from((None, "chat", "agent")),
        "scope": st.sampled_from((None, "open", "addressed")),
        "cards": st.dictionaries(st.sampled_from(AGENTS), cards, max_size=2),
        "joins": agents,
        "leaves": agents,
        "title": st.sampled_from((None, "Cats")),
        "context_from": st.none() | POSITIONS,
        "hides": st.none() | _spans(),
    }
    return st.fixed_dictionaries({}, optional=given).map(lambda fields: ModeSwitch(**fields))

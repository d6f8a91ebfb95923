"""Approvals and questions: calls that wait for a person, and what the person decides or answers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_jsonable_python

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.calls import call_at, question_at
from stenolog.adapters.tools.execute import needs_approval
from stenolog.domain.approval import DecidedCall, SigningKey, signed
from stenolog.domain.entry import microseconds
from stenolog.domain.errors import IllegalCommandError, InvalidEventError
from stenolog.domain.events import Event, UserMessage
from stenolog.domain.lanes.effects import Effect, RunTool, effects, ref
from stenolog.domain.lanes.state import LaneState, OpenCall, named_call
from stenolog.domain.lanes.turn_taking import hearing
from stenolog.domain.values import CallRef, Control, ToolQuestion
from stenolog.projections.answers import answer_from, check_answer
from stenolog.projections.json_checks import misfit
from stenolog.projections.questions import json_or
from stenolog.projections.terminal_text import call_code

from .agent import WorkerTool
from .journal.journal import Journal
from .journal.work import short_key, tool_key


class PendingApproval(NamedTuple):
    """Call that waits for a person, in the conversation where it is approved or answered.

    `question`, asked at position `asked`, is to be answered; without one, the call is to be approved.
    """

    lane: str
    call: CallRef
    name: str
    arguments: str
    conversation: str
    question: ToolQuestion | None = None
    asked: int = 0

    @property
    def code(self) -> str:
        """The code by which a person names the call; it depends on the arguments and the question."""
        # A later question of the same call has another code, so that no answer is taken for it.
        return question_code(self.call, self.asked) if self.asked else call_code(*self[1:4])


def question_code(call: CallRef, asked: int) -> str:
    """Return the code of a call's question, by the position that it was asked at."""
    return call_code(call, "ask", str(asked))


def waiting(conversation: Conversation) -> list[PendingApproval]:
    """Return the calls that wait for a person in a conversation and in those of its workers."""
    return [call for each, _ in _conversations(conversation) for call in _waiting(each)]


def workers(conversation: Conversation) -> dict[str, int]:
    """Return the conversations of the workers at work, with the positions of the answers that called them.

    For a worker of a worker, that is the position of the outermost call.
    """
    return {each.name: lane.answered for each, lane in _conversations(conversation) if lane is not None}


def refuse_at_workers(conversation: Conversation, event: Event) -> None:
    """Refuse the workers' calls that wait for a person, if a person speaks to their callers."""
    if not isinstance(event, UserMessage) or event.author_kind != "person":
        return
    if event.control or not event.parts:
        return
    hears = hearing(conversation.state(), event)
    called = [(lane, call) for lane, call in _called(conversation) if lane.address in hears]
    # A worker in a scope has no conversation of its own: its lane has the short key as its task.
    scopes = {short_key(tool_key(conversation, RunTool(lane, call))) for lane, call in called}
    for child, lane in _conversations(conversation):
        for call in _waiting(child):
            if call.lane.partition("/")[2] not in scopes if lane is None else lane.address not in hears:
                continue
            control = Control(action="refuse", call=call.call)
            reason = UserMessage(parts=event.parts, author=event.author, to=[call.lane], control=control)
            # Another process may have decided about the call since.
            with suppress(IllegalCommandError):
                child.submit(reason)


def are_delegates(under_way: Collection[Effect], tools: Mapping[str, Mapping[str, BaseTool]]) -> bool:
    """Return whether effects are under way, and all are calls of workers."""
    return bool(under_way) and all(
        isinstance(each, RunTool)
        and isinstance(tools.get(each.lane.agent, {}).get(each.call.name), WorkerTool)
        for each in under_way
    )


def only_waits(conversation: Conversation, agents: Collection[str] | None = None) -> bool:
    """Return whether only a person can go on, here and in the conversations of the workers.

    `agents` are those at work, None: all; a fork also has busy lanes of its callers, and a log those of other
    programs.
    """
    state = conversation.state()
    found = [e for e in effects(state) if agents is None or e.lane.agent in agents or e.lane.task]
    if not found:
        # Without an approval it has come to rest, and its caller is about to hear of it.
        return any(call.waits for _, call in state.open_calls())
    children = {name.rpartition("~")[2]: name for name in workers(conversation)}
    return all(_waits_below(conversation, effect, children) for effect in found)


def _waits_below(conversation: Conversation, effect: Effect, children: Mapping[str, str]) -> bool:
    if not isinstance(effect, RunTool):
        return False
    worker = short_key(tool_key(conversation, effect))
    if worker in children:
        name = children[worker]
        return only_waits(conversation.log[name], [name.rpartition("~")[0]])
    # A worker in a scope has a lane here; while that works, it has effects of its own.
    lanes = conversation.state().lanes.values()
    return any(lane.task == worker and lane.status == "awaiting_approval" for lane in lanes)


def _conversations(conversation: Conversation) -> Iterator[tuple[Conversation, LaneState | None]]:
    yield conversation, None
    if _called(conversation):
        # By the short key behind the tilde, which is made of the call.
        children = {
            name.rpartition("~")[2]: name for name in conversation.log.names(archived=True, contains="~")
        }
        yield from _children(conversation, children, None)


def _children(
    conversation: Conversation, children: Mapping[str, str], root: LaneState | None
) -> Iterator[tuple[Conversation, LaneState]]:
    for lane, call in _called(conversation):
        if child := children.get(short_key(tool_key(conversation, RunTool(lane, call)))):
            yield conversation.log[child], root or lane
            yield from _children(conversation.log[child], children, root or lane)


def _called(conversation: Conversation) -> list[tuple[LaneState, OpenCall]]:
    return [(lane, call) for lane, call in conversation.state().open_calls() if not call.waits]


def _waiting(conversation: Conversation) -> Iterator[PendingApproval]:
    for lane, call in conversation.state().open_calls():
        if call.waits:
            made_call = call_at(conversation, call)
            question = question_at(conversation, call.question) if call.question else None
            yield PendingApproval(
                lane.address,
                ref(call),
                call.name,
                made_call.arguments,
                conversation.name,
                question,
                call.question,
            )


class Approver(NamedTuple):
    """A person who decides: an identity in free text, such as a mail address, and a key to sign with."""

    identity: str = ""
    signer: SigningKey | None = None


Arguments = Mapping[str, Any] | str
"""Arguments as an object, or as the JSON of one."""
POLICY = "approval policy"
"""The author of an approval that needs no person."""


def approval(
    conversation: Conversation, call: CallRef, arguments: Arguments | None = None, by: Approver | None = None
) -> Control:
    """Return the approval of a call, with other arguments if some are given.

    Raises `InvalidEventError` if these are no JSON object, or do not fit the tool's schema.
    """
    if arguments is None:
        return decided(conversation, Control(action="approve", call=call), by)
    given = _object(arguments)
    if (found := named_call(conversation.state(), call)) is not None:
        lane, open_call = found
        tools = conversation.settings().card_of(lane.agent).tools or ()
        schema = next((dict(tool.parameters) for tool in tools if tool.name == open_call.name), {})
        if wrong := misfit(given, schema):
            raise InvalidEventError(f"arguments of {open_call.name}: {wrong}")
    return decided(conversation, Control(action="approve", call=call, arguments=_json(given)), by)


def refusal(conversation: Conversation, call: CallRef, by: Approver | None = None) -> Control:
    """Return the refusal of a call."""
    return decided(conversation, Control(action="refuse", call=call), by)


def answer(
    conversation: Conversation, call: CallRef, value: Any, by: Approver | None = None, asked: int = 0
) -> UserMessage:
    """Return the answer to a call's question; `asked` is the position of the one that is meant.

    Raises `InvalidEventError` if the answer does not fit, and `IllegalCommandError` if nothing is asked.
    """
    found = named_call(conversation.state(), call)
    open_at = found[1].question if found is not None else 0
    try:
        given = to_jsonable_python(value)
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError, PydanticSerializationError) as error:
        raise InvalidEventError(f"answer: expected JSON: {error}, found {value!r:.100}") from None
    question = question_at(conversation, open_at) if open_at and asked in (0, open_at) else None
    if question is not None:
        check_answer(question, given)
    control = decided(conversation, Control(action="answer", call=call, answer=written), by)
    return UserMessage(control=control, cause=asked or open_at or None)


def check_fit(conversation: Conversation, event: Event) -> None:
    """Raise `InvalidEventError` for an answer that does not fit the question that its call asks."""
    control = event.control if isinstance(event, UserMessage) else None
    if control is None or control.action != "answer" or control.call is None:
        return
    found = named_call(conversation.state(), control.call)
    question = question_at(conversation, found[1].question) if found and found[1].question else None
    if question is not None:
        check_answer(question, json_or(control.answer, control.answer))


def answer_in_words(
    conversation: Conversation, call: OpenCall, text: str, by: Approver | None = None
) -> UserMessage:
    """Return a person's text as the answer to a call's question. Raises `InvalidEventError`."""
    question = question_at(conversation, call.question)
    value = answer_from(question, text) if question is not None else text
    return answer(conversation, ref(call), value, by, call.question)


def decided(conversation: Conversation, control: Control, by: Approver | None) -> Control:
    """Return a decision with who made it, signed if they have a key."""
    if by is None:
        return control
    control = replace(control, identity=by.identity)
    found = named_call(conversation.state(), control.call) if by.signer and control.call else None
    if found is None or by.signer is None:
        return control  # without an open call it is refused
    made = call_at(conversation, found[1])
    at = found[1].question if control.action == "answer" else 0
    question = question_at(conversation, at) if at else None
    call = DecidedCall(conversation.name, made.name, made.arguments, question.text if question else "")
    return signed(control, call, by.signer, microseconds(conversation.log.edge.clock()))


def _object(arguments: Arguments) -> dict[str, Any]:
    try:
        given = json.loads(arguments if isinstance(arguments, str) else _json(arguments))
        _json(given)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidEventError(
            f"arguments: expected a JSON object: {error}, found {arguments!r:.100}"
        ) from None
    if not isinstance(given, dict):
        raise InvalidEventError(f"arguments: expected a JSON object, found {arguments!r:.100}")
    return given


def _json(given: Mapping[str, Any]) -> str:
    return json.dumps(given, ensure_ascii=False, allow_nan=False)


def auto_approvals(journal: Journal, tools: Mapping[str, Mapping[str, BaseTool]]) -> Iterator[UserMessage]:
    """Yield the approvals of calls that need no person."""
    for lane in journal.state.lanes.values():
        for call in lane.calls if lane.status == "awaiting_approval" else ():
            if not call.approval or (tool := tools.get(lane.agent, {}).get(call.name)) is None:
                continue
            # The author of an imported file chose these arguments, so a person has to decide.
            if journal.is_foreign(call):
                continue
            if not needs_approval(tool, journal.call_of(RunTool(lane, call)).arguments):
                # The log has a policy's decision like a person's.
                control = Control(action="approve", call=ref(call))
                yield UserMessage(control=control, author=POLICY, author_kind="system")

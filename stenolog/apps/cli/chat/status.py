"""Status of a conversation at a terminal: calls to approve, failed or stopped agents, next steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.tools.calls import question_at
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.lanes.state import LaneState, OpenCall, State, address, decision
from stenolog.projections.questions import on_one_line

from .terminal import error_words, minute

Agents: TypeAlias = Collection[str]
LONGEST_WORDS = 200
"""So many characters are shown of what was said last."""


class Hints(NamedTuple):
    """Commands that status lines suggest: approve, return to a call, continue, retry, shorten a request."""

    approve: str = "/approve"
    left: str = "/approve comes back to it"
    go_on: str = "/continue"
    again: str = "/continue"
    shorter: str = "/undo, /reset, or another policy"

    def out_of(self, error: LlmError) -> str:
        """Return the advice after an error that is not retried."""
        if error.category == "unauthorized":
            return f"set the key and start again; {self.again} tries again then"
        if error.category == "context_length":
            return f"{self.shorter}; {self.again} tries again then"
        return f"{self.again} {'lets it go on' if not_called(error) else 'tries again'}"


def not_called(error: LlmError) -> bool:
    """Return whether the engine asked a person before calling the model."""
    return error.category == "process_exited" and error.receipt is None


def awaiting(state: State, agents: Agents) -> Iterator[tuple[LaneState, OpenCall]]:
    """Yield the calls to approve or to answer before these agents continue."""
    for lane, call in state.open_calls():
        if call.waits and lane.status == "awaiting_approval" and lane.agent in agents:
            yield lane, call


def at_work(state: State, agents: Agents) -> str:
    """Describe these agents' current work; empty if idle."""
    doing = []
    for lane in state.lanes.values():
        match decision(state, lane).do if lane.agent in agents else "wait":
            case "call_model":
                # A call that its program stopped is due at once.
                waits = lane.retry_at and lane.category != "cancelled"
                doing.append(f"{lane.address} is {'waiting to retry' if waits else 'thinking'}")
            case "run_tools":
                doing.append(f"{lane.address} runs {', '.join(call.name for call in lane.calls)}")
            case _:
                pass
    return " · ".join(doing)


def failed(state: State, agents: Agents) -> list[str]:
    """Return these agents' failed lanes."""
    return [where for where, lane in state.lanes.items() if lane.status == "failed" and lane.agent in agents]


def stopped(conversation: Conversation, agents: Agents) -> list[str]:
    """Return these agents' lanes that stopped before answering a person."""
    words = next(
        (entry.position for entry in backwards(conversation, conversation.position) if is_words(entry)), 0
    )
    lanes = (
        lane for lane in conversation.state().lanes.values() if lane.status == "idle" and lane.agent in agents
    )
    return [lane.address for lane in lanes if lane.asked > lane.seen and lane.asked >= words]


def is_words(entry: Entry) -> bool:
    """Return whether a person said it."""
    event = entry.event
    return isinstance(event, UserMessage) and event.control is None and event.author_kind == "person"


def last_exchange(conversation: Conversation) -> list[str]:
    """Return the beginnings of a person's last message, and of the last one to that person."""
    answer, hidden = "", conversation.settings().hides
    for entry in backwards(conversation, conversation.position):
        if any(entry.position in span for span in hidden):
            continue
        match entry.event:
            case AssistantMessage(purpose="answer") as message if message.text and not answer:
                answer = f"{address(message.agent, message.task)}: {message.text}"
            case UserMessage() as message if is_words(entry):
                return [
                    _short(words) for words in (f"{message.author or 'you'}: {message.text}", answer) if words
                ]
            case ModeSwitch(context_from=int()):
                return []
            case _:
                pass
    return []


def _short(words: str) -> str:
    joined = " ".join(words.split())
    return joined if len(joined) <= LONGEST_WORDS else f"{joined[: LONGEST_WORDS - 1]}…"


def describe_status(conversation: Conversation, agents: Agents, hints: Hints) -> Iterator[str]:
    """Describe a resumed conversation: waiting calls, failures, interruptions."""
    state = conversation.state()
    for where, lane in state.lanes.items():
        match lane.status if lane.agent in agents else "idle":
            case "awaiting_approval":
                since = next(iter(conversation.entries(lane.answered - 1, lane.answered))).time
                if names := ", ".join(call.name for call in lane.calls if call.approval):
                    yield f"{where} awaits your approval of {names} since {minute(since)}: {hints.approve}"
                asked = (question_at(conversation, call.question) for call in lane.calls if call.question)
                for question in filter(None, asked):
                    yield f"{where} asks: {on_one_line(question)}: {hints.approve}"
            case "awaiting_llm" | "awaiting_tools":
                yield f"{where} was interrupted, or is at work elsewhere: {hints.go_on}"
            case "failed":
                error = _failure(conversation, where)
                words, way = (error_words(error), hints.out_of(error)) if error else ("unknown", hints.again)
                yield f"{where} has failed ({words}): {way}"
            case _:
                pass


def _failure(conversation: Conversation, where: str) -> LlmError | None:
    for entry in backwards(conversation, conversation.position):
        match entry.event:
            case LlmError(agent=agent, task=task) as error if address(agent, task) == where:
                return error
            case _:
                pass
    return None

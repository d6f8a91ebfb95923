"""Records that a replay gives again: answers, results, and the verdicts on both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from stenolog.adapters.tools.calls import USER, editor_in_words
from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.handoffs import is_of_handoff, taking_over
from stenolog.domain.lanes.state import address
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import CallRef, Control, ToolQuestion
from stenolog.domain.verdict import Verdict, is_released, own_meta, verdict_of
from stenolog.projections.views.tool_pairs import ToolCallIndex

from .order import ReplayPoint


class RecordedAnswer(NamedTuple):
    """Recorded answer or error of a model call, its position, and the edit that a check made of it.

    An answer that was held back is an error here, with the edit that was made when it was let pass.
    """

    position: int
    event: AssistantMessage | LlmError
    edit: AssistantMessage | None = None

    @property
    def view(self) -> int:
        """The position that the request was made at."""
        return self.event.receipt.view if self.event.receipt else self.position - 1

    @property
    def point(self) -> ReplayPoint:
        """Its place among what is given in order."""
        return ReplayPoint(self.position, self.view, self.event.agent)


class RecordedEdit(NamedTuple):
    """Arguments that a check gave a call in place of those `made`."""

    made: str
    arguments: str
    verdict: Verdict


class RecordedResult(NamedTuple):
    """Recorded tool call and its result: lane, both positions, both events, and what was appended with it.

    `questions` are those that the call asked; `is_answered`: the last of them too. `by` is who changed the
    call's arguments; `edit` is how a check did.
    """

    lane: str
    made: int
    position: int
    call: ToolCall
    event: ToolResult
    following: tuple[Event, ...] = ()
    questions: tuple[ToolQuestion, ...] = ()
    is_answered: bool = True
    by: str = USER
    edit: RecordedEdit | None = None

    @property
    def point(self) -> ReplayPoint:
        """Its place among what is given in order."""
        return ReplayPoint(self.position, self.position - 1, self.lane.partition("/")[0], self.call.name)

    @property
    def was_run(self) -> bool:
        """True if the tool ran; false for results that the engine made itself."""
        # The engine's own results, of a refused call for instance, have no duration.
        return self.event.duration_ms is not None


def recorded_answers(entries: list[Entry]) -> Iterator[RecordedAnswer]:
    """Yield the answers and errors of the model calls that the log has."""
    edits = _edits(entries)
    for entry in entries:
        match entry.event:
            # One that was held back was given by an error, and counts again without a call.
            case AssistantMessage(purpose="answer", replaces=None) as event if not is_released(event):
                yield RecordedAnswer(entry.position, event, edits.get(entry.position))
            # A call that a check refused has no receipt: it was not made.
            case LlmError() as event if event.receipt or (verdict_of(event) and not event.in_context):
                yield RecordedAnswer(entry.position, event, edits.get(entry.position))
            case _:
                pass


def _edits(entries: Sequence[Entry]) -> dict[int, AssistantMessage]:
    """Return what checks put in place of answers, in one transaction with them, by their positions."""
    found = dict[int, AssistantMessage]()
    for before, entry in pairwise(entries):
        match before.event, entry.event:
            case AssistantMessage() as answer, AssistantMessage(replaces=int(replaced)) as edit:
                if replaced == before.position and verdict_of(edit):
                    found[own_meta(answer).get("held", replaced)] = edit
            case _:
                pass
    return found


def recorded_results(entries: list[Entry]) -> Iterator[RecordedResult]:
    """Yield the results of calls that the log has, each call with the arguments that it ran with."""
    pairing, results, changed = ToolCallIndex(), dict[str, Entry](), dict[CallRef, UserMessage]()
    asked, answers = defaultdict[CallRef, list[ToolQuestion]](list), Counter[CallRef]()
    for at, entry in enumerate(entries):
        found = pairing.take(entry)
        match entry.event:
            case UserMessage(control=Control(action="approve", call=CallRef() as approved)) as message:
                changed[approved] = message
            case UserMessage(
                control=Control(action="ask", call=CallRef() as asking, question=ToolQuestion() as it)
            ):
                asked[asking].append(it)
            case UserMessage(control=Control(action="answer", call=CallRef() as asking)):
                answers[asking] += 1
            case _:
                pass
        if isinstance(entry.event, AssistantMessage):
            results[entry.id] = entry
        elif found is not None and found.call is not None:
            answer, call = results[found.call.entry], found.call
            assert isinstance(entry.event, ToolResult), "only results make pairs"
            assert isinstance(answer.event, AssistantMessage), "and only answers make calls"
            its = answer.event.tool_calls[call.key.nth]
            ref = CallRef(entry=call.entry, index=call.key.nth)
            approval = changed.get(ref)
            arguments = approval.control.arguments if approval and approval.control else ""
            verdict = verdict_of(approval) if arguments else None
            edit = RecordedEdit(its.arguments, arguments, verdict) if verdict else None
            its = replace(its, arguments=arguments or its.arguments)
            where = address(call.agent, call.task)
            following = tuple(_following(entry.event, entries[at + 1 : at + 3], where))
            questions = tuple(asked.pop(ref, ()))
            yield RecordedResult(
                where,
                answer.position,
                entry.position,
                its,
                entry.event,
                following,
                questions,
                answers[ref] == len(questions),
                editor_in_words(approval),
                edit,
            )
    yield from _open_questions(results, asked)


def _open_questions(
    answers: Mapping[str, Entry], asked: Mapping[CallRef, list[ToolQuestion]]
) -> Iterator[RecordedResult]:
    """Yield the calls that still wait for an answer at the end."""
    for ref, questions in asked.items():
        entry = answers[ref.entry]
        assert isinstance(entry.event, AssistantMessage), "only answers make calls"
        where, call = address(entry.event.agent, entry.event.task), entry.event.tool_calls[ref.index]
        result = ToolResult(call_id=call.id, call=ref, name=call.name)
        yield RecordedResult(
            where, entry.position, entry.position, call, result, (), tuple(questions), is_answered=False
        )


def _following(result: ToolResult, entries: Sequence[Entry], lane: str) -> Iterator[Event]:
    """Yield what was appended with a result: the verdict that ended its lane, or what handed on."""
    for entry in entries:
        match entry.event:
            case LlmError(receipt=None) as error if verdict_of(error) is not None:
                if address(error.agent, error.task) == lane:
                    yield error
                return
            case ModeSwitch() | UserMessage() as event if taking_over(result) and is_of_handoff(event):
                yield event
            case _:
                return

"""Judging of a lane's requests and answers: the checks of its agent, and the type of its output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.checks import (
    TRIES,
    AskPerson,
    CheckFailure,
    Refuse,
    Replace,
    StageCheck,
    at_stage,
    reworded,
    short,
)
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.engine.output import BY, fault, refusals, refused
from stenolog.adapters.engine.situation import Situation
from stenolog.adapters.models.base import Model, RecordedModel
from stenolog.domain.events import AssistantMessage, ErrorCategory, Event, LlmError, UserMessage
from stenolog.domain.lanes.effects import CallModel, as_error
from stenolog.domain.lanes.state import address
from stenolog.domain.verdict import Kind, Verdict, joined, verdict_of, with_own
from stenolog.projections.requests import Request

T = TypeVar("T")
InLogThread = Callable[..., Any]


class Holds(NamedTuple):
    """The checks whose questions a person has let pass by `continue`, and the answer that was held back."""

    requests: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    answer: LlmError | None = None
    position: int = 0


class AnswerJudge:
    """Judge of one model call: of its request, and of the answer to it.

    `mentioned` returns the agents that a text hands on to.
    """

    def __init__(
        self,
        journal: Journal,
        in_log_thread: InLogThread,
        effect: CallModel,
        agent: Agent,
        model: Model,
        mentioned: Callable[[str], Iterable[str]],
    ) -> None:
        self.journal = journal
        self.in_log_thread = in_log_thread
        self.effect = effect
        self.agent = agent
        self.model = model
        self.mentioned = mentioned
        self.holds = Holds()
        self._edit: AssistantMessage | None = None

    async def before(self, request: Request) -> AssistantMessage | LlmError | None:
        """Return what the call ends in without its model: a refusal, or an answer that was held back."""
        lane = self.effect.lane
        if not self.agent.checks and lane.category != "refused":
            return None
        where = self.journal.conversation, lane.address, self.effect.cause
        self.holds = await self.in_log_thread(holds, *where)
        if self.holds.answer is not None:
            return await self.judged(self._released(self.holds.answer))
        for check in at_stage(self.agent.checks, "before_request"):
            match await check.judge(request, self._situation()):
                case Refuse(reason):
                    return self._unsent("refused", Verdict("refused", check.name, short(reason)))
                case AskPerson(question) if check.name not in self.holds.requests:
                    return self._unsent("refused", Verdict("held", check.name, short(question)))
                case CheckFailure(reason):
                    return self._unsent("other", Verdict("failed", check.name, short(reason)))
                case _:
                    pass
        return None

    async def judged(self, answer: AssistantMessage) -> AssistantMessage | LlmError:
        """Return the answer, or the error that says why it does not count."""
        if isinstance(self.model, RecordedModel):
            return self._recorded(answer, self.model.edit(self.effect.lane.address))
        if wrong := self._unfit(answer):
            return await self._refused(answer, BY, wrong)
        now, verdicts = answer, list[Verdict]()
        for check in at_stage(self.agent.checks, "after_answer"):
            match await check.judge(now, self._situation()):
                case Replace(value, reason, by):
                    given = self._replaced(now, check, value)
                    if isinstance(given, CheckFailure):
                        return _not_counted(answer, "other", "failed", check.name, given.reason)
                    now = given
                    verdicts.append(Verdict("replaced", by or check.name, short(reason)))
                case Refuse(reason):
                    return await self._refused(answer, check.name, reason)
                case AskPerson(question) if check.name not in self.holds.answers:
                    return _not_counted(answer, "refused", "held", check.name, question)
                case CheckFailure(reason):
                    return _not_counted(answer, "other", "failed", check.name, reason)
                case _:
                    pass
        return self._edited(answer, now, verdicts) if verdicts else answer

    def edits(self, event: Event, live: LiveState) -> Iterator[Event]:
        """Yield the answer that counts in place of the event, which is appended with it."""
        if self._edit is not None and isinstance(event, AssistantMessage):
            yield replace(self._edit, replaces=live.state.position + 1)

    def _unfit(self, answer: AssistantMessage) -> str:
        output = self.agent.output
        return "" if output is None else fault(output, answer, by_tool=self.agent.gives_by_tool)

    async def _refused(self, answer: AssistantMessage, by: str, reason: str) -> LlmError:
        output, conversation = self.agent.output, self.journal.conversation
        tool = output.called if output is not None and self.agent.gives_by_tool else ""
        before = await self.in_log_thread(refusals, conversation, self.effect.lane.address, tool)
        tries = output.tries if output is not None else TRIES
        return refused(answer, by, reason, before + 1, tries, self._now())

    def _replaced(
        self, answer: AssistantMessage, check: StageCheck, value: Any
    ) -> AssistantMessage | CheckFailure:
        try:
            now = replace(answer, parts=reworded(answer.parts, value))
        # The function gave what no log can hold.
        except (TypeError, ValueError) as error:
            return CheckFailure(f"the check {check.name}: expected a text or parts: {error}")
        wrong = self._unfit(now)
        return CheckFailure(f"the check {check.name}: {wrong}") if wrong else now

    def _edited(
        self, answer: AssistantMessage, now: AssistantMessage, verdicts: list[Verdict]
    ) -> AssistantMessage:
        bare = replace(
            now,
            usage=None,
            receipt=None,
            duration_ms=None,
            first_token_ms=None,
            session="",
            to=(),
        )
        self._edit = joined(verdicts).on(bare)
        # By the words that count.
        return replace(answer, to=[*self.mentioned(now.text)])

    def _recorded(self, answer: AssistantMessage, edit: AssistantMessage | None) -> AssistantMessage:
        """Return an answer of a replay, with the edit of its record."""
        self._edit = edit
        return answer if edit is None else replace(answer, to=[*self.mentioned(edit.text)])

    def _released(self, held: LlmError) -> AssistantMessage:
        """Return an answer that was held back as it counts after all; its call was counted by the error."""
        answer = AssistantMessage(
            agent=held.agent,
            task=held.task,
            parts=held.parts,
            cause=self.effect.cause,
            model=held.model,
            to=[*self.mentioned(held.text)],
        )
        return with_own(answer, restated=True, held=self.holds.position)

    def _unsent(self, category: ErrorCategory, verdict: Verdict) -> LlmError:
        """Return the error of a call that was not made."""
        lane = self.effect.lane
        error = LlmError(
            agent=lane.agent,
            task=lane.task,
            category=category,
            message=verdict.reason,
            cause=self.effect.cause,
            attempt=self.effect.attempt - 1,
            in_context=False,
        )
        return verdict.on(error)

    def _situation(self) -> Situation:
        journal = self.journal
        lane = journal.state.lane(self.effect.lane.address)
        found = journal.state, journal.settings, self._now(), journal.options.deps
        return Situation(journal.conversation, lane, *found)

    def _now(self) -> datetime:
        return self.journal.conversation.log.edge.clock()


def _not_counted(
    answer: AssistantMessage, category: ErrorCategory, kind: Kind, by: str, reason: str
) -> LlmError:
    """Return an answer that is held back, out of context, until a person goes on."""
    error = replace(as_error(answer, category, short(reason)), in_context=False)
    return Verdict(kind, by, short(reason)).on(error)


def holds(conversation: Conversation, lane: str, cause: int) -> Holds:
    """Return what a person let pass by the `continue` at `cause`; nothing if it is no such message."""
    if not _is_continue(conversation.entry(cause).event):
        return Holds()
    passed: dict[bool, set[str]] = {False: set(), True: set()}
    answer, position = None, 0
    for entry in backwards(conversation, cause):
        match entry.event:
            case LlmError() as error if address(error.agent, error.task) == lane:
                verdict = verdict_of(error)
                if verdict is None or verdict.kind != "held":
                    break
                if error.parts and not any(passed.values()):
                    answer, position = error, entry.position
                passed[bool(error.parts)].add(verdict.by)
            case AssistantMessage(purpose="answer") as said if address(said.agent, said.task) == lane:
                break
            case UserMessage() as message if message.parts and message.author_kind != "system":
                break
            case _:
                pass
    return Holds(frozenset(passed[False]), frozenset(passed[True]), answer, position)


def _is_continue(event: Event) -> bool:
    return isinstance(event, UserMessage) and event.control is not None and event.control.action == "continue"

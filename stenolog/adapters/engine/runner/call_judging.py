"""Judging of calls and their results by the checks of their agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.engine.checks import (
    AskPerson,
    CheckFailure,
    Refuse,
    Replace,
    StageCheck,
    at_stage,
    short,
)
from stenolog.adapters.tool_specs.signatures import json_object
from stenolog.adapters.tools.asking import QuestionAsked
from stenolog.adapters.tools.base import Attachment, BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.results import failed, outcome_of
from stenolog.domain.errors import ToolError
from stenolog.domain.events import ToolResult, UserMessage
from stenolog.domain.lanes.effects import RunTool, ref
from stenolog.domain.lanes.state import OpenCall
from stenolog.domain.parts import FilePart
from stenolog.domain.values import Control
from stenolog.domain.verdict import OWN, Kind, Verdict, joined, own_meta, verdict_of, with_own
from stenolog.projections.json_checks import misfit

YES, NO = "yes", "no"
"""The answers to a check's question."""
WHOLE = "whole result"
"""The name of the file that holds a large result while a person is asked about it."""


class CallJudge:
    """Judge of one run of a call, before its tool runs and after."""

    def __init__(
        self,
        checks: Sequence[StageCheck],
        in_log_thread: Callable[..., Any],
        context: ToolContext,
        effect: RunTool,
        tool: BaseTool | None,
    ) -> None:
        self.before_call = at_stage(checks, "before_call")
        self.after_result = at_stage(checks, "after_result")
        self.in_log_thread = in_log_thread
        self.context = context
        self.call = effect.call
        self.tool = tool
        self.has_refused = False
        self.approval: UserMessage | None = None
        """Other arguments, by which the call is to run again."""
        self.released: ToolResult | None = None
        """The result that a person was asked about."""
        self._is_held = False

    async def before(self) -> ToolOutput | None:
        """Return what counts without a run of the tool; None: it is to run."""
        conversation = self.context.conversation
        if self.after_result and self.call.questions:
            held = await self.in_log_thread(held_result, conversation, self.call)
            if held is not None:
                return self._judged_by_person(*held)
        if not self.before_call or (
            self.call.edited and await self.in_log_thread(was_checked, conversation, self.call)
        ):
            return None
        context, verdicts = self.context, list[Verdict]()
        for check in self.before_call:
            match given := await check.judge(context):
                case Replace(value, reason, by):
                    arguments = self._arguments(value)
                    if isinstance(arguments, CheckFailure):
                        return self._refused("failed", check.name, arguments.reason)
                    context = context._replace(arguments=arguments)
                    verdicts.append(Verdict("replaced", by or check.name, short(reason)))
                case AskPerson(question):
                    if (answer := self._answer_to(question)) is None:
                        return failed("")
                    if answer != YES:
                        return self._refused("refused", check.name, f"{REFUSED} {question}")
                case Refuse(reason) | CheckFailure(reason):
                    kind: Kind = "refused" if isinstance(given, Refuse) else "failed"
                    return self._refused(kind, check.name, reason)
                case None:
                    pass
        if not verdicts:
            return None
        self.approval = self._approved(context.arguments, verdicts)
        return failed("")

    async def after(self, outcome: ToolOutput) -> ToolOutput:
        """Return the result that counts."""
        questions = list[str]()
        for check in self.after_result:
            match given := await check.judge(self.context, outcome):
                case Replace(value, reason, by):
                    verdict = Verdict("replaced", by or check.name, short(reason))
                    try:
                        outcome = _marked(outcome_of(value), outcome, verdict)
                    except ToolError as error:
                        return _marked(failed(str(error)), outcome, verdict._replace(kind="failed"))
                case AskPerson(question):
                    questions.append(question)
                case Refuse(reason) | CheckFailure(reason):
                    kind: Kind = "refused" if isinstance(given, Refuse) else "failed"
                    return _marked(failed(reason), outcome, Verdict(kind, check.name, short(reason)))
                case None:
                    pass
        # Last, so that the person is asked about what the other checks made of it.
        self._is_held = bool(questions) and self._answer_to("\n".join(questions)) is None
        return outcome

    def holding(self, question: UserMessage, made: Callable[[], ToolResult]) -> UserMessage:
        """Return the question, with the result that it is about if there is one."""
        if not self._is_held:
            return question
        result = made()
        whole = (FilePart(name=WHOLE, blob=result.blob),) if result.blob else ()
        kept = {"is_error": result.is_error, "duration_ms": result.duration_ms, "meta": dict(result.meta)}
        asked = replace(question, parts=(*result.parts, *whole), in_context=False)
        return with_own(asked, held=kept)

    def _answer_to(self, question: str) -> str | None:
        """Return the answer to a question; None if it is asked now."""
        assert self.context.asking is not None, "the engine gives it"
        try:
            return str(self.context.asking.ask(question, (YES, NO), None))
        except QuestionAsked:
            return None

    def _judged_by_person(self, result: ToolResult, question: str) -> ToolOutput:
        if self._answer_to(question) == YES:
            self.released = result
        return failed(f"{WITHHELD} {question}")

    def _refused(self, kind: Kind, by: str, reason: str) -> ToolOutput:
        """Return the result of a call that is not run."""
        self.has_refused = True
        return failed(reason)._replace(meta={OWN: {"verdict": Verdict(kind, by, short(reason))._asdict()}})

    def _arguments(self, value: Any) -> str | CheckFailure:
        try:
            arguments = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
            wrong = misfit(json_object(arguments), self.tool.spec.parameters if self.tool else {})
        except (ToolError, TypeError, ValueError) as error:
            return CheckFailure(f"expected the arguments as an object: {error}")
        return CheckFailure(wrong) if wrong else arguments

    def _approved(self, arguments: str, verdicts: Sequence[Verdict]) -> UserMessage:
        verdict = joined(verdicts)
        control = Control(action="approve", call=ref(self.call), arguments=arguments)
        return verdict.on(UserMessage(author=verdict.by, author_kind="system", control=control))


REFUSED = "The user refused this call; it was not run. They were asked:"
WITHHELD = "The user withheld the result of this call. They were asked:"


def was_checked(conversation: Conversation, call: OpenCall) -> bool:
    """Return whether a check has given an edited call the arguments that it runs with."""
    return verdict_of(conversation.entry(call.approved).event) is not None


def held_result(conversation: Conversation, call: OpenCall) -> tuple[ToolResult, str] | None:
    """Return the result of a call that a person was asked about, and the question."""
    found = None
    for entry in conversation.entries(call.position):
        match entry.event:
            case UserMessage(control=Control(action="ask", call=asked, question=question)) as message:
                if asked == ref(call) and question is not None and "held" in own_meta(message):
                    found = _result(message, call), question.text
            case _:
                pass
    return found


def _result(message: UserMessage, call: OpenCall) -> ToolResult:
    kept = own_meta(message)["held"]
    whole = [part for part in message.parts if isinstance(part, FilePart) and part.name == WHOLE]
    return ToolResult(
        call_id=call.id,
        call=ref(call),
        name=call.name,
        parts=[part for part in message.parts if part not in whole],
        is_error=kept["is_error"],
        blob=whole[0].blob if whole else "",
        duration_ms=kept["duration_ms"],
        meta=kept["meta"],
    )


def _marked(made: ToolOutput, before: ToolOutput, verdict: Verdict) -> ToolOutput:
    """Return a result in place of another, of which only a digest is kept: a secret may have been in it."""
    digest = sha256(json.dumps([_bytes_of(item) for item in before.content]).encode()).hexdigest()
    kept = before.meta.get(OWN, {})
    ours = {**(kept if isinstance(kept, dict) else {}), "verdict": {**verdict._asdict(), "original": digest}}
    return made._replace(meta={**made.meta, OWN: ours})


def _bytes_of(item: str | Attachment) -> str:
    return item if isinstance(item, str) else sha256(item.content).hexdigest()

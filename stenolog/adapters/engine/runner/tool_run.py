"""Run of one tool call, from its claim to its result or question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.live_state import LiveState
from stenolog.adapters.engine.journal.work import ClaimedEffect, FinishedEffect
from stenolog.adapters.tools.asking import Asking
from stenolog.adapters.tools.base import BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.calls import USER, answered_questions, editor_of, with_metadata
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.results import failed, failure, redacted_output, result_of
from stenolog.domain.events import Event, ToolResult
from stenolog.domain.lanes.effects import EffectResult, RunTool, question_message, ref

if TYPE_CHECKING:
    from stenolog.adapters.engine.checks import StageCheck

    from .call_judging import CallJudge

GOES_ON = "The call was cancelled, but goes on in the background, and may still have effects."


class ToolRun:
    """Run of a call: its checks, its tool, and the event that it ends in."""

    def __init__(
        self,
        journal: Journal,
        in_log_thread: Callable[..., Any],
        tools: Mapping[str, BaseTool],
        claimed: ClaimedEffect,
        effect: RunTool,
    ) -> None:
        assert claimed.call is not None, "a tool runs a call"
        self.journal = journal
        self.in_log_thread = in_log_thread
        self.tools = tools
        self.effect = effect
        self.made = claimed.call
        self.claim = claimed.claim
        self.tool = tools.get(claimed.call.name)
        self.asking = Asking()
        self.context = ToolContext(
            name=self.made.name,
            arguments=self.made.arguments,
            key=self.claim.key,
            lane=effect.lane.address,
            conversation_name=journal.conversation.name,
            id=self.made.id,
            position=effect.cause,
            conversation=journal.conversation,
            deps=journal.options.deps,
            asking=self.asking,
        )
        agent = journal.agents.get(effect.lane.agent)
        self.judge = self._judge_by(agent.checks) if agent is not None and agent.checks else None
        self.took: int | None = None

    def _judge_by(self, checks: Sequence[StageCheck]) -> CallJudge:
        from .call_judging import CallJudge  # late, as most agents have no check

        return CallJudge(checks, self.in_log_thread, self.context, self.effect, self.tool)

    async def run(self) -> FinishedEffect | None:
        """Run the call, and return its end; None if nothing is to be appended."""
        conversation, call = self.journal.conversation, self.effect.call
        watch, by = self.journal.options.world.stopwatch, USER
        start = watch()
        try:
            if call.questions:
                self.asking.add(await self.in_log_thread(answered_questions, conversation, call))
            if call.edited:
                by = await self.in_log_thread(editor_of, conversation, call)
            outcome = await self._outcome()
        except asyncio.CancelledError:
            if not self.journal.is_unwanted(self.claim):
                raise
            # Nothing more will come of it, and its result in the log already says that it was cancelled.
            if self.tool is None or self.tool.stops or self.tool.repeat == "safe":
                await self.in_log_thread(self.journal.release, self.claim)
                return None
            outcome = failed(GOES_ON)
        if self.judge is None or not self.judge.has_refused:
            self.took = round((watch() - start) * 1000)
        outcome = with_metadata(outcome, self.made, call, by)
        return FinishedEffect(
            lambda: self._end(outcome), lambda error: self._result(failure(error)), self._following
        )

    async def _outcome(self) -> ToolOutput:
        """Run the call, unless its agent's mode withholds the tool, or a check refuses it."""
        if withheld := self.journal.settings.withheld(self.effect.lane.agent, self.made.name):
            return failed(withheld)
        if self.judge is not None and (refused := await self.judge.before()) is not None:
            return refused
        outcome = await execute(self.tool, self.context, list(self.tools))
        return outcome if self.judge is None or self.asking.open else await self.judge.after(outcome)

    def _end(self, outcome: ToolOutput) -> EffectResult:
        """Return the result; or other arguments or a question, after which the call runs again."""
        if self.judge is not None and (decided := self.judge.approval or self.judge.released) is not None:
            return decided
        if (question := self.asking.open) is None:
            return self._result(outcome)
        asked = question_message(self.effect.lane, self.effect.call, question)
        return asked if self.judge is None else self.judge.holding(asked, lambda: self._result(outcome))

    def _result(self, outcome: ToolOutput) -> ToolResult:
        log, call = self.journal.conversation.log, self.effect.call
        if log.edge.redact:
            outcome = redacted_output(outcome, log.edge.redact)
        return result_of(outcome, self.made.id, ref(call), self.made.name, log.blobs.put, self.took)

    def _following(self, result: EffectResult, _live: LiveState) -> Iterable[Event]:
        # A question is followed by nothing: the call runs again.
        if self.tool is None or not isinstance(result, ToolResult):
            return ()
        return self.tool.following(result, self.context)

"""A capability of pydantic-ai's agents that takes every step of a run down as it happens.

    recorder = PydanticAIRecorder(conversation)
    agent = Agent("openai:gpt-5.2", capabilities=[recorder])
    prompt = None if recorder.is_unfinished else "Which test fails?"
    result = agent.run_sync(prompt, message_history=recorder.history())

A question is in the log before the model is asked, an answer before its tools run, each result of a tool as
soon as it is there. Killed anywhere and started again, the run goes on, and no tool whose result is in the
log runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import NewEntry
from stenolog.domain.errors import InvalidEventError, MissingExtraError, VersionConflictError
from stenolog.domain.events import ToolResult
from stenolog.domain.values import Origin, Tool
from stenolog.projections.messages.json_fields import Blobs, compact_json

from .pydantic_ai import AGENT, is_waiting, known_to, validated, written
from .pydantic_ai_messages import OURS, content_of, returned, without_early
from .pydantic_ai_parts import SYSTEM, content_of_parts, contents
from .shared import make_patch, whole_text

try:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_ai import AgentRunResult, ModelMessage, RunContext, ToolCallPart, ToolDefinition, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
    from pydantic_ai.messages import ToolReturnContent
    from pydantic_graph import End
except ImportError:
    raise MissingExtraError("pydantic-ai", "pydantic-ai") from None

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AgentNode, NodeResult
    from pydantic_ai.models import ModelRequestContext

RETURNED: TypeAdapter[Any] = TypeAdapter(
    ToolReturn | ToolReturnContent, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class PydanticAIRecorder(AbstractCapability[Any]):
    """Recorder of an agent's runs in a conversation; `agent` is its name in the log.

    One run at a time: if anybody else appends after `history()` or during the run, the next step raises
    `VersionConflictError`, and their entries stay. A tool that was running when the process died, or that
    raised, runs again. Stream deltas are not kept.
    """

    def __init__(self, conversation: Conversation, *, agent: str = AGENT) -> None:
        super().__init__()
        self.conversation = conversation
        self.agent = agent
        self._read_at: int | None = None

    def __repr__(self) -> str:
        return f"<PydanticAIRecorder of {self.conversation!r}>"

    @property
    def is_unfinished(self) -> bool:
        """True if the log ends mid-run, with an open question or open calls."""
        known = known_to(self.conversation, self.conversation.position, self.agent)
        if not known or known[-1].ends:
            return False
        return known[-1].response is None or is_waiting(known[-1])

    def history(self) -> list[ModelMessage]:
        """Return the messages in context, for `message_history=`.

        Continue an unfinished run without a prompt.
        """
        self._read_at = self.conversation.position
        known = without_early(known_to(self.conversation, self._read_at, self.agent))
        return validated([message for exchange in known for message in exchange.messages])

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        return await asyncio.to_thread(_Run, self)


class _Run(PydanticAIRecorder):
    """One run: where the log stands for it, and the results that another one has left."""

    def __init__(self, recorder: PydanticAIRecorder) -> None:
        super().__init__(recorder.conversation, agent=recorder.agent)
        self._lock = Lock()
        self._position = recorder.conversation.position
        self._replaces = recorder._read_at == self._position
        if recorder._read_at not in (None, self._position):
            raise VersionConflictError(
                self.conversation.name, expected=recorder._read_at or 0, found=self._position
            )
        recorder._read_at = None
        known = known_to(self.conversation, self._position, self.agent)
        self._early = dict(map(self._returned, known[-1].early)) if known else {}
        self._seen: tuple[int, int] | None = None
        self._card: AgentCard | None = None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._card = _card(request_context)
        await self._keep(ctx.messages)
        self._early = {}
        return request_context

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: AgentNode[Any], result: NodeResult[Any]
    ) -> NodeResult[Any]:
        if not isinstance(result, End):  # what a run ends with is taken down in `after_run`
            await self._keep(ctx.messages)
        return result

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        await self._keep(ctx.messages)
        if call.tool_call_id in self._early:
            return self._early.pop(call.tool_call_id)
        result = await handler(args)
        await asyncio.to_thread(self._keep_result, call, result)
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await self._keep(result.all_messages(), ends=True)
        return result

    async def _keep(self, messages: Sequence[ModelMessage], ends: bool = False) -> None:
        seen = (len(messages), id(messages[-1])) if messages else None
        if seen != self._seen or ends:
            await asyncio.to_thread(self._write, list(messages), ends)
            self._seen = seen

    def _write(self, messages: list[ModelMessage], ends: bool) -> None:
        with self._lock:
            entries = written(
                self.conversation,
                messages,
                self._position,
                self.agent,
                replaces=self._replaces,
                card=self._card,
                ends=ends,
            )
            self._position, self._replaces = self._position + len(entries), True

    def _keep_result(self, call: ToolCallPart, result: Any) -> None:
        """Append a tool's result, before the other tools of the same step have ended."""
        blobs: Blobs = {}
        try:
            value = whole_text(RETURNED.dump_python(result, mode="json"))
        except (ValueError, TypeError) as error:
            raise InvalidEventError(
                f"{call.tool_name}: a result that cannot be written as JSON: {error}"
            ) from error
        parts = contents(content_of(value), blobs)
        event = ToolResult(
            call_id=call.tool_call_id,
            name=call.tool_name,
            parts=parts,
            meta={OURS: {"returned": make_patch(content_of_parts(parts, blobs), value)}},
            source=Origin(system=SYSTEM, role="tool-return"),
        )
        self.conversation.log.blobs.put_all(blobs.values())
        with self._lock:
            self._position = self.conversation.append(event, expected=self._position).position

    def _returned(self, draft: NewEntry) -> tuple[str, Any]:
        assert isinstance(draft.event, ToolResult)
        value = returned(draft.event, self.conversation.log.blobs)
        return draft.event.call_id, RETURNED.validate_json(compact_json(value))


def _card(asked: ModelRequestContext) -> AgentCard:
    tools = [
        Tool(name=tool.name, description=tool.description or "", parameters=tool.parameters_json_schema)
        for tool in asked.model_request_parameters.function_tools
    ]
    return AgentCard(model=asked.model.model_name, provider=asked.model.system, tools=tools)

"""Which calls a person need not approve after all: what a tool says of its own arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.execute import needs_approval
from stenolog.domain.effects import RunTool, ref
from stenolog.domain.events import UserMessage
from stenolog.domain.values import Control

from .journal import Journal

POLICY = "approval policy"


def auto_approvals(scribe: Journal, tools: Mapping[str, Mapping[str, BaseTool]]) -> Iterator[UserMessage]:
    """The approvals that no person is asked for, as events: a policy's word is in the log like a person's."""
    for lane in scribe.state.lanes.values():
        for call in lane.calls if lane.status == "awaiting_approval" else ():
            if not call.approval or (tool := tools.get(lane.agent, {}).get(call.name)) is None:
                continue
            if scribe.is_foreign(call):  # a file's author chose it: a person decides
                continue
            if not needs_approval(tool, scribe.call_of(RunTool(lane, call)).arguments):
                control = Control(action="approve", call=ref(call))
                yield UserMessage(control=control, author=POLICY, author_kind="system")

"""Replay of a recorded run: the log answers for models and tools, in the recorded order.

    recording = Replay(log["demo"])
    team = Team([recording.agent(coder)])

The first request that differs from the recorded one raises `ReplayMismatchError`, which names the difference.
Workers in a scope cannot be replayed: their lanes have new names in each run.

An answer waits for earlier recorded answers, and for the requests made before it. It does not wait for one
that needs a person's later message, which the replay may never get.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import fields, replace

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.requests.lanes import api_of
from stenolog.adapters.conversation.queries.requests.sent_forms import in_sent_form
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.checks import Replace, StageCheck, before_call
from stenolog.adapters.engine.model_calls.model_call import RecordedVerdictError
from stenolog.adapters.engine.situation import Situation
from stenolog.adapters.models.base import Model, ModelRequest, Progress, RecordedModel, StreamItem
from stenolog.adapters.tools.base import Attachment, BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.calls import note_of
from stenolog.adapters.tools.functions import as_runnables
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry
from stenolog.domain.errors import ModelError, ReplayMismatchError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.handoffs import is_of_handoff
from stenolog.domain.lanes.state import address
from stenolog.domain.parts import AssistantPart, ProviderPart, RefusalPart, TextPart, ToolCall, UserPart
from stenolog.domain.values import Receipt, Tool
from stenolog.domain.verdict import verdict_of
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.deltas import ModelResponse, ResponseDelta
from stenolog.projections.json_checks import first_difference
from stenolog.projections.messages.body_digest import by_hash
from stenolog.projections.messages.message import Body
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.truncation import RESULTS, with_text
from stenolog.projections.requests.request import sent_under

from .agents import AS_RECORDED, RecordedAgent, RecordedCards
from .order import ReplayOrder
from .records import RecordedAnswer, RecordedEdit, RecordedResult, recorded_answers, recorded_results

# Entry ids are drawn anew in each run, so the alias differs though the result is the same.
ALIAS = re.compile(re.escape(RESULTS) + r"[^\s\"/]+?\.json")
"""The alias of a large result: it has the id of its entry."""


class Replay:
    """Recorded model calls and tool results of a conversation, up to a position."""

    def __init__(self, conversation: Conversation, at: int | None = None) -> None:
        self.conversation, self.at = conversation, at
        self.settings = conversation.settings(at)
        self._answers: dict[str, deque[RecordedAnswer]] = defaultdict(deque)
        self.given: dict[str, RecordedAnswer] = {}
        """The last answer of each lane that was given again."""
        self._built: dict[str, int] = {}
        self._results: dict[tuple[str, str, str], deque[RecordedResult]] = defaultdict(deque)
        self._edits: dict[tuple[str, str, str], deque[RecordedEdit]] = defaultdict(deque)
        entries = list(conversation.entries(at=at))
        answers = list(recorded_answers(entries))
        self._cards = RecordedCards(entries)
        self._apis: dict[tuple[str, str, str], str] = {}
        for answer in answers:
            event = answer.event
            if event.receipt is not None:
                then = self._cards.at(event.agent, answer.view)
                self._apis[event.agent, then.model, then.provider] = event.receipt.api.partition("@")[0]
            self._answers[address(answer.event.agent, answer.event.task)].append(answer)
        results = list(recorded_results(entries))
        for result in results:
            self._results[result.lane, result.call.name, result.call.arguments].append(result)
            if result.edit is not None:
                self._edits[result.lane, result.call.name, result.edit.made].append(result.edit)
        self.order = ReplayOrder(
            [each.point for each in answers] + [each.point for each in results if each.was_run],
            [entry.position for entry in entries if _is_outside(entry)],
        )

    def agent(self, agent: Agent | str) -> Agent:
        """Return an agent that answers from the recording; given a name, with its recorded card."""
        replayed = self._same(agent) if isinstance(agent, Agent) else self._carded(agent)
        names = [tool.spec.name for tool in replayed.tools if isinstance(tool, BaseTool)]
        self.order.expect(replayed.name, names)
        return replayed

    @property
    def remaining(self) -> int:
        """The number of recorded model calls not replayed yet."""
        return sum(map(len, self._answers.values()))

    def answer(self, prompt: ModelRequest) -> RecordedAnswer:
        """Return the lane's next recorded answer. Raises `ReplayMismatchError`."""
        waiting = self._answers[prompt.lane]
        if not waiting:
            raise ReplayMismatchError(
                f"{prompt.lane}: asks once more than was recorded in {self.conversation.name!r}"
            )
        recorded = waiting[0]
        receipt = recorded.event.receipt
        if receipt is not None:
            self._compare(prompt, recorded, receipt)
        self.order.request_seen(recorded.position)
        self.given[prompt.lane] = waiting.popleft()
        return recorded

    async def in_time(self, lane: str, at: int) -> bool:
        """Return whether a lane's request, built at a position, may be answered.

        If not, wait until one may.
        """
        waiting, is_again = self._answers[lane], self._built.get(lane) == at
        self._built[lane] = at
        # Built again at the same position, it would never be another.
        return is_again or not waiting or await self.order.reached(waiting[0].view, at)

    def result(self, call: ToolContext) -> RecordedResult | None:
        """Return the recorded result of a call, or None; its recorded questions are asked first."""
        waiting = self._results[call.lane, call.name, call.arguments]
        if not waiting:
            return None
        recorded = waiting[0]
        for nth, question in enumerate(recorded.questions, 1):
            if nth == len(recorded.questions) and not recorded.is_answered:
                waiting.popleft()  # in the recording, the call ended with this question
            if call.asking is not None:
                call.asking.require(question)
        return waiting.popleft()

    def content(self, recorded: RecordedResult) -> tuple[str | Attachment, ...]:
        """Return a result as its tool gave it, with the whole text in place of a preview."""
        result, note = recorded.event, note_of(recorded.call, recorded.by)
        whole = self.conversation.log.blobs[result.blob].decode() if result.blob else ""
        given = map(self.media, with_text(result.parts, whole) if whole else result.parts)
        # The engine puts the note before it once more.
        return tuple(each.removeprefix(note) if isinstance(each, str) else each for each in given)

    def media(self, part: UserPart) -> str | Attachment:
        """Return a part of a result as a tool gives it."""
        if isinstance(part, TextPart):
            return part.text
        if isinstance(part, ProviderPart):
            return part.raw
        return Attachment(self.conversation.log.blobs[part.blob] if part.blob else b"", part.media_type)

    def _same(self, agent: Agent) -> Agent:
        models = [_Model(self, llm.name, llm.provider, llm.api, llm.remembers) for llm in agent.models]
        text = agent.persona if isinstance(agent.persona, str) else self._instructions
        made = {each.name: getattr(agent, each.name) for each in fields(Agent)}
        made |= {"llm": models or self._model(agent.name, "", "", self._api(agent.name)), "fallbacks": ()}
        made |= {
            "persona": text,
            "tools": self._tools(agent),
            "retries": AS_RECORDED,
            "checks": self._checks(),
        }
        return RecordedAgent(**made, card_of=self._card_of)

    def _carded(self, agent: str) -> Agent:
        card, cards = self.settings.card_of(agent), self._cards.of(agent)
        patched = {name for each in cards for name in each.patched}
        # What was named by a patch at some time, in order; else only what the card names now.
        named = dict.fromkeys((each.model, each.provider) for each in cards if each.model)
        models = [*named] if "model" in patched else [(card.model, card.provider)]
        first, *others = (self._model(agent, *each, self._api(agent)) for each in models)
        return RecordedAgent(
            agent,
            llm=first,
            fallbacks=others,
            persona=self._instructions if "persona" in patched else card.persona,
            tools=[_Tool(self, spec) for spec in card.tools or ()],
            parameters=card.parameters,
            policy=next((each.policy for each in reversed(cards) if "policy" not in each.patched), None),
            retries=AS_RECORDED,
            checks=self._checks(),
            card_of=self._card_of,
        )

    def _checks(self) -> tuple[StageCheck, ...]:
        # Only if there is something to say: a replay is to keep the order of the recording.
        return (before_call(self._edited),) if self._edits else ()

    async def _edited(self, call: ToolContext) -> Replace | None:
        """Return the arguments that a check gave a call."""
        waiting = self._edits[call.lane, call.name, call.arguments]
        if not waiting:
            return None
        edit = waiting.popleft()
        return Replace(edit.arguments, edit.verdict.reason, edit.verdict.by)

    def _model(self, agent: str, name: str, provider: str, api: str | Format) -> Model:
        return _Model(self, name, provider, self._apis.get((agent, name, provider), api))

    def _card_of(self, where: str) -> AgentCard:
        """Return the card with which a lane's next recorded call was made."""
        waiting, agent = self._answers[where], where.partition("/")[0]
        return self._cards.at(agent, waiting[0].view) if waiting else self.settings.card_of(agent)

    def _instructions(self, situation: Situation) -> str:
        return self._card_of(situation.lane.address).persona

    def _tools(self, agent: Agent) -> list[BaseTool]:
        """Return the agent's tools as described now; those of a toolbox as recorded."""
        given = as_runnables([*agent.tools, *agent.own_tools])
        tools = [tool for tool in given if isinstance(tool, BaseTool)]
        recorded = self.settings.card_of(agent.name).tools or ()
        own = [tool.spec for tool in tools]
        names = {spec.name for spec in own}
        # A toolbox is not opened for a replay, so its tools are those that the card had.
        is_boxed = len(tools) < len(given)
        boxed = [spec for spec in recorded if spec.name not in names] if is_boxed else []
        return [_Tool(self, spec) for spec in own + boxed]

    def _api(self, agent: str) -> str:
        return api_of(self.conversation, LaneId(agent), self.at)

    def _compare(self, prompt: ModelRequest, recorded: RecordedAnswer, receipt: Receipt) -> None:
        agent, _, task = prompt.lane.partition("/")
        api = receipt.api.partition("@")[0]
        then = self.conversation.request(agent, receipt.view, api, task=task, policy=sent_under(receipt))
        if in_sent_form(self.conversation, then, receipt).sha256 != receipt.sha256:
            raise ReplayMismatchError(
                f"{prompt.lane}: the request that position {recorded.position} of "
                f"{self.conversation.name!r} answers "
                "cannot be built again; `stenolog check log --requests` says why"
            )
        different = first_difference(_plain(then.body), _plain(prompt.body))
        if different is not None:
            raise ReplayMismatchError(
                f"{prompt.lane}: the request differs from the one that position {recorded.position} of "
                f"{self.conversation.name!r} answers, at {different.pointer or '/'}: "
                f"expected {different.expected}, found {different.found}"
            )


class _Model(RecordedModel):
    """Answers from a recording."""

    charges = "nothing"

    def __init__(
        self, recording: Replay, name: str, provider: str, api: str | Format, remembers: bool = False
    ) -> None:
        self.recording = recording
        self.name = name
        self.provider = provider  # type: ignore[misc]
        self.api = api
        # With the same answer it has the same default policy, and makes the same requests.
        self.remembers = remembers

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        end = self.recording.answer(prompt)
        event = end.event
        for index, part in enumerate(event.parts):
            yield _delta(index, part)
        # After the deltas: text streams while the end of an answer waits for its turn.
        await self.recording.order.turn(end.position, end.view)
        if isinstance(event, LlmError):
            yield Progress(event.session, event.model, event.usage)
            if verdict_of(event) is not None:
                raise RecordedVerdictError(event)
            # Where the recorded call was tried again, so is this one, without the wait.
            wait = None if event.retry_at is None else 0.0
            raise ModelError(event.category, event.message, retry_after=wait)
        yield ModelResponse(tuple(event.parts), event.model, event.finish_reason, event.usage, event.session)

    async def in_time(self, lane: str, at: int) -> bool:
        return await self.recording.in_time(lane, at)

    def appended(self, lane: str, at: int) -> None:
        if (given := self.recording.given.get(lane)) is not None:
            self.recording.order.appended(given.position, at)

    def edit(self, lane: str) -> AssistantMessage | None:
        given = self.recording.given.get(lane)
        return given.edit if given is not None else None


class _Tool(BaseTool):
    """Tool that returns recorded results. It changes nothing, so it may run again."""

    def __init__(self, recording: Replay, spec: Tool) -> None:
        self.recording = recording
        self.spec = spec
        self.repeat = "safe"
        self._given: dict[str, RecordedResult] = {}

    async def run(self, call: ToolContext) -> ToolOutput:
        found = self.recording.result(call)
        if found is None:
            return ToolOutput(("not recorded",), is_error=True)
        await self.recording.order.turn(found.position, found.made)
        self._given[call.key] = found
        return ToolOutput(self.recording.content(found), found.event.is_error, found.event.meta)

    def following(self, result: ToolResult, call: ToolContext) -> Iterable[Event]:
        if (given := self._given.get(call.key)) is None:
            return
        assert call.conversation is not None, "the engine runs it"
        self.recording.order.appended(given.position, call.conversation.position + 1)
        for event in given.following:
            yield replace(event, cause=call.position) if isinstance(event, UserMessage) else event


def _is_outside(entry: Entry) -> bool:
    """Return whether the entry is not the engine's own."""
    match entry.event:
        case UserMessage(author_kind=kind):
            return kind == "person"
        case ModeSwitch() as switch:
            return not is_of_handoff(switch)
        case _:
            return False


def _delta(index: int, part: AssistantPart) -> ResponseDelta:
    match part:
        case ToolCall(id=id, name=name, arguments=arguments):
            return ResponseDelta(index, "tool_call", arguments, id, name)
        case TextPart(text=text):
            return ResponseDelta(index, "text", text)
        case RefusalPart(text=text):
            return ResponseDelta(index, "refusal", text)
        case ProviderPart(provider=provider, raw=raw):
            return ResponseDelta(index, "act", raw, provider)
        case _:
            return ResponseDelta(index, "reasoning", getattr(part, "text", ""))


def _plain(body: Body) -> object:
    return _without_ids(by_hash(body))


def _without_ids(value: object) -> object:
    match value:
        case str():
            return ALIAS.sub(RESULTS, value)
        case list():
            return [_without_ids(each) for each in value]
        case dict():
            return {name: _without_ids(each) for name, each in value.items()}
        case _:
            return value

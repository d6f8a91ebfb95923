"""Runners in other languages: they claim effects and send outcomes through an engine's journal.

A locked file of this process shows that an owner lives. If the owner or this process ends, or its lease, the
next runner settles its claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import NoReturn

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.lanes import api_of
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.journal import recovery
from stenolog.adapters.engine.journal.card_patches import FailedCall, patch_after, recovered
from stenolog.adapters.engine.journal.journal import Journal
from stenolog.adapters.engine.journal.work import ClaimedEffect, Poll, key
from stenolog.adapters.engine.mentions import mentioned
from stenolog.adapters.engine.model_calls.model_call import StreamDraft, keep_drafts
from stenolog.adapters.engine.options import Options
from stenolog.adapters.models.base import Model, ModelRequest
from stenolog.adapters.store.contract.roles import Presence
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.base import BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.results import failed, result_of
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import AgentNotFoundError, ClaimLostError, InvalidEventError, VersionConflictError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch
from stenolog.domain.lanes.effects import MODEL, RunTool, as_recorded, ref
from stenolog.domain.lanes.state import LaneState, named_call
from stenolog.domain.values import CallRef, Receipt, Tool
from stenolog.projections.formats.deltas import ResponseDelta
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.request import known_policy
from stenolog.projections.requests.sendable import no_agent

from . import outcomes
from .runner_messages import ClaimParams, Outcome


class RemoteModel(Model):
    """A model that the other program calls; here only the form of its requests."""

    def __init__(self, name: str, api: str, provider: str = "") -> None:
        self.name = name
        self.api = api
        self.provider = provider  # type: ignore[misc]

    def stream(self, prompt: ModelRequest) -> NoReturn:
        """Fail: the other program asks the model."""
        raise AssertionError("a remote model is not called here")


class RemoteTool(BaseTool):
    """A tool that the other program runs, possibly twice."""

    repeat = "keyed"

    def __init__(self, name: str) -> None:
        self.spec = Tool(name=name)

    async def run(self, call: ToolContext) -> ToolOutput:
        """Fail: the other program runs it."""
        raise AssertionError("a remote tool is not run here")


class RemoteRunner:
    """One owner at work on one conversation. Safe for threads; calls take turns."""

    def __init__(self, conversation: Conversation, presence: Presence) -> None:
        self.conversation = conversation
        self._presence = presence
        self._turn = threading.Lock()
        self._drafts: dict[int, StreamDraft] = {}

    @cached_property
    def _journal(self) -> Journal:
        return Journal(self.conversation, self._presence, {}, Options())

    def claim(self, params: ClaimParams) -> tuple[tuple[ClaimedEffect, ...], Poll, int]:
        """Claim due effects of these agents, after settling those of dead runners.

        Returns the claims, the poll, and the position that they were decided on. Raises `AgentNotFoundError`.
        """
        with self._turn:
            journal = self._journal
            journal.catch_up()
            journal.agents = self._agents(params)
            journal.options = replace(journal.options, mentions=params.mentions or None)
            self._release_forgotten(params.at_work)
            tools: dict[str, BaseTool] = {name: RemoteTool(name) for name in params.repeatable}
            by_agent = dict.fromkeys(journal.agents, tools)
            reruns = [
                journal.track(found)
                for claim in journal.orphans()
                if (found := _recovered(journal, claim, by_agent)) is not None
            ]
            poll = journal.poll({key(each.effect) for each in reruns}, (), params.limit - len(reruns))
            while poll.again:
                journal.catch_up()
                poll = journal.poll({key(each.effect) for each in reruns}, (), params.limit - len(reruns))
            claimed = tuple(self._allowed([*reruns, *poll.claimed]))
            return claimed, poll, journal.state.position

    def _release_forgotten(self, at_work: list[int] | None) -> None:
        claims = self._journal.claims.all() if at_work is not None else []
        for claim in claims:
            if claim.owner == self._presence.owner and claim.fence not in (at_work or ()):
                self._journal.claims.release(claim)
                self._forget(claim.fence)

    def _agents(self, params: ClaimParams) -> dict[str, Agent]:
        settings = self._journal.settings
        members = settings.members or tuple(settings.cards)
        for name in params.agents:
            if name not in members:
                raise AgentNotFoundError(f"{self.conversation.name!r}: {no_agent(name, members)}")
        limits = outcomes.limits_from(params.limits)

        def model(name: str) -> RemoteModel:
            api = params.apis.get(name) or params.api or api_of(self.conversation, LaneId(name))
            return RemoteModel(settings.card_of(name).model, api)

        return {name: Agent(name, model(name), limits=limits) for name in params.agents or members}

    def _allowed(self, claimed: Iterable[ClaimedEffect]) -> Iterable[ClaimedEffect]:
        """Yield the effects; a call of a tool that this mode withholds is answered, not run."""
        journal = self._journal
        for each in claimed:
            call = each.call
            if call is None or not isinstance(each.effect, RunTool):
                yield each
            elif withheld := journal.settings.withheld(each.effect.lane.agent, call.name):
                put, where = self.conversation.log.blobs.put, ref(each.effect.call)
                result = result_of(failed(withheld), call.id, where, call.name, put)
                journal.append_decided(lambda result=result: (result,), each.claim)  # type: ignore[misc]
            else:
                yield each

    def settle(self, fence: int, outcome: Outcome, id: str | None) -> list[Entry]:
        """Append the outcome of a claimed effect, and return its entries. With an id it may be repeated.

        Raises `ClaimLostError` if another runner has taken over, and `InvalidEventError`.
        """
        with self._turn:
            journal = self._journal
            while True:
                journal.catch_up()
                # The answer to an earlier call was lost on its way.
                if id is not None and (written := self.conversation.entry_by_id(id)) is not None:
                    return [written]
                claim = self._claim(fence)
                events = self._events(claim, outcome)
                try:
                    entries = journal.append(*_with_id(journal, events, id), fence=fence)
                except VersionConflictError:
                    continue
                self._forget(fence)
                return entries

    def release(self, fence: int) -> None:
        """Release an effect that was not begun, or may be repeated. Raises `ClaimLostError`."""
        with self._turn:
            self._journal.claims.release(self._claim(fence))
            self._forget(fence)

    def draft(self, fence: int, text: str) -> None:
        """Keep streamed text in case the runner dies. Raises `ClaimLostError`."""
        with self._turn:
            self._claim(fence)
            draft = self._drafts.setdefault(fence, StreamDraft(fence))
            draft.add(ResponseDelta(0, "text", text))
            keep_drafts([draft], self._journal.claims.draft)

    def _forget(self, fence: int) -> None:
        self._drafts.pop(fence, None)
        self._journal.under_way.pop(fence, None)
        self._journal.unwanted.discard(fence)

    def _claim(self, fence: int) -> Claim:
        for claim in self._journal.claims.all():
            if claim.fence == fence:
                return claim
        raise ClaimLostError(f"claim {fence} was settled, released or taken over: nothing is appended for it")

    def _events(self, claim: Claim, outcome: Outcome) -> Sequence[Event | NewEntry]:
        """Return the outcome's events, in their late form if the log no longer wants the effect.

        Events that were given are kept as they are.
        """
        if "events" in outcomes.given_fields(outcome):
            return outcomes.new_entries(outcome.events or ())
        if claim.effect == MODEL:
            return self._model_events(claim, outcome)
        if outcome.output is None and outcome.question is None:
            raise InvalidEventError("/outcome: expected output or question, for the claim is of a tool call")
        answer, where, run = self._call(claim)
        if outcome.question is not None:
            asked = outcomes.question_event(outcome.question, claim.lane, where, claim.cause)
            return (as_recorded(asked, is_wanted=run is not None),)
        assert outcome.output is not None, "it is one of the two"
        call = answer.tool_calls[where.index] if run is None else self._journal.call_of(run)
        result = outcomes.tool_event(self.conversation, outcome.output, call, where, run and run.call)
        if run is None:  # the call was closed while it ran
            return (as_recorded(result, is_wanted=False),)
        return outcomes.handing_on(self.conversation, outcome.output, result, claim.lane, run.call.position)

    def _model_events(self, claim: Claim, outcome: Outcome) -> Sequence[Event]:
        journal, where = self._journal, claim.lane
        lane = journal.state.lane(where)
        card = journal.settings.card_of(lane.agent)
        receipt = outcomes.RECEIPT.load(claim.receipt) if claim.receipt else None
        fields = (lane.agent, lane.task, receipt, claim.cause, claim.attempt)
        call = outcomes.ModelCall(*fields, model=card.model, tools=card.tools or ())
        event = outcomes.model_event(outcome, call, self.conversation.log.edge.clock())
        if isinstance(event, AssistantMessage):
            settings, by_name = journal.settings, bool(journal.options.mentions)
            names = mentioned(event.text, settings.members, lane.agent, settings.turns, by_name=by_name)
            event = replace(event, to=tuple(names))
        is_wanted = not journal.is_unwanted(claim) and journal.is_due(claim)
        if is_wanted and receipt is not None and isinstance(event, LlmError):
            return self._recovered(event, lane, card, receipt)
        return (as_recorded(event, is_wanted=is_wanted),)

    def _recovered(
        self, error: LlmError, lane: LaneState, card: AgentCard, receipt: Receipt
    ) -> Sequence[Event]:
        """Return a failure, and what a request that was too long tells of its model's limit."""
        model = RemoteModel(card.model, receipt.api.partition("@")[0], card.provider)
        sent = self.conversation.request(
            lane.agent, receipt.view, model.api, task=lane.task, policy=known_policy(receipt)
        )
        made = FailedCall(Agent(lane.agent, model), model, sent, lane)
        after = patch_after(error, made, card)
        patches = () if after is None else (ModeSwitch(cards={lane.agent: after}),)
        return (recovered(error, made, self.conversation.log.edge.clock()), *patches)

    def _call(self, claim: Claim) -> tuple[AssistantMessage, CallRef, RunTool | None]:
        position, _, nth = claim.effect.removeprefix("tool ").partition("/")
        entry = self.conversation.entry(int(position))
        assert isinstance(entry.event, AssistantMessage), "calls are of answers"
        where = CallRef(entry=entry.id, index=int(nth))
        found = named_call(self._journal.state, where)
        return entry.event, where, RunTool(*found) if found else None


def _recovered(journal: Journal, claim: Claim, tools: dict[str, dict[str, BaseTool]]) -> ClaimedEffect | None:
    return recovery.recover(journal, claim, journal.agents, tools, journal.options, recovery.DIED)


def _with_id(journal: Journal, events: Sequence[Event | NewEntry], id: str | None) -> list[NewEntry]:
    entries = [each if isinstance(each, NewEntry) else NewEntry(each) for each in events]
    marked = [each._replace(event=journal.marked(each.event)) for each in entries]
    if id is not None and marked and marked[0].id is None:
        marked[0] = marked[0]._replace(id=id)
    return marked


class Owner:
    """An owner of claims: the presence that shows its life, and its runners by conversation.

    `until` is the end of its lease on the stopwatch, `lease` its length in seconds.
    """

    def __init__(self, log: Log, lease: float) -> None:
        self._presence = log.recorder.claims.presence(log.edge.id())
        self._runners: dict[str, RemoteRunner] = {}
        self._turn = threading.Lock()
        self.lease = lease
        self.until = inf

    def runner(self, conversation: Conversation) -> RemoteRunner:
        """Return the owner's runner on a conversation."""
        with self._turn:
            return self._runners.setdefault(conversation.name, RemoteRunner(conversation, self._presence))

    def close(self) -> None:
        """End the owner: its claims are those of a dead runner."""
        self._presence.close(keep=True)


class Owners:
    """The owners by name. `is_leased`: one that does not call during its lease is ended.

    `stopwatch` counts seconds.
    """

    def __init__(self, log: Log, stopwatch: Callable[[], float], *, is_leased: bool) -> None:
        self._log = log
        self._stopwatch = stopwatch
        self.is_leased = is_leased
        self._owners: dict[str, Owner] = {}
        self._turn = threading.Lock()

    def renew(self, name: str, lease: float | None = None) -> Owner:
        """Return the owner, which has just called; `lease` None keeps the length."""
        self.end_lapsed()
        with self._turn:
            owner = self._owners.get(name)
            if owner is None:
                owner = self._owners[name] = Owner(self._log, lease or DEFAULT_LEASE)
            owner.lease = lease or owner.lease
            owner.until = self._stopwatch() + owner.lease if self.is_leased else inf
            return owner

    def leave(self, name: str) -> None:
        """End an owner, if there is one."""
        with self._turn:
            if owner := self._owners.pop(name, None):
                owner.close()

    def end_lapsed(self) -> None:
        """End the owners whose leases are over."""
        now = self._stopwatch()
        for name in [name for name, owner in self._owners.copy().items() if owner.until < now]:
            self.leave(name)

    def close(self) -> None:
        """End all of them."""
        for name in [*self._owners]:
            self.leave(name)


DEFAULT_LEASE = 60.0
"""The seconds after which a silent owner is ended."""

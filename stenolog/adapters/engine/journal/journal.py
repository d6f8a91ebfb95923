"""Journal of a runner: it reads the state, takes claims, and appends results.

All of it runs in one thread; nothing here waits for a model or a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries import folds
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.model_calls.retries import Waits
from stenolog.adapters.engine.options import Options
from stenolog.adapters.models.base import Model
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.roles import Presence
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.tools.calls import as_approved
from stenolog.domain.card import AgentCard
from stenolog.domain.entry import Entry, microseconds
from stenolog.domain.erasure import is_erased
from stenolog.domain.errors import (
    CallerError,
    ClaimLostError,
    InvalidEventError,
    InvalidPolicyError,
    VersionConflictError,
)
from stenolog.domain.events import AssistantMessage, ErrorCategory, Event, LlmError, ModeSwitch
from stenolog.domain.lanes.effects import (
    CallModel,
    Effect,
    EffectResult,
    RunTool,
    as_recorded,
    effects,
    is_still_needed,
    needs_confirmation,
    unknown_outcome,
)
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.domain.lanes.limits import LaneUsage, Tokens, limit_reached
from stenolog.domain.lanes.state import OpenCall, address
from stenolog.domain.parts import ToolCall
from stenolog.domain.policy import policy
from stenolog.domain.values import Receipt, Usage
from stenolog.projections.prices import known_cost, unpriced
from stenolog.projections.requests import Request

from .card_patches import CardPatches
from .live_state import LiveState, dequeue
from .work import ClaimedEffect, FinishedEffect, Key, Poll, key, model_key, tool_key, unwritten

RECEIPT = folds.Json(Receipt)


class Journal(LiveState):
    """Conversation as one runner works on it, for `agents`."""

    def __init__(
        self,
        conversation: Conversation,
        presence: Presence,
        agents: Mapping[str, Agent],
        options: Options,
    ) -> None:
        self.waits = Waits(conversation, options.world.stopwatch)
        super().__init__(conversation)
        self.presence = presence
        self.agents = agents
        self.options = options
        self.cards = CardPatches(conversation, options)
        self.claims = Claims(conversation.log.recorder, conversation.stream)
        self.without_summary: Mapping[str, str] = {}
        self.under_way: dict[int, Effect] = {}
        """The claimed effects, by the fence of their claim."""
        self.unwanted: set[int] = set()
        """Those of them that the log has stopped since, even where their lane has more to do by now."""

    def settle(self, claim: Claim, finished: FinishedEffect) -> None:
        """Append an effect's result and remove its claim; append nothing if the claim is lost.

        Raises `StoreError`. The result is then kept in `unwritten`.
        """
        unwritten[claim.key] = finished
        with suppress(ClaimLostError):
            try:
                self._append_result(claim, finished.event(), finished)
            # A model or a tool gave what no log can hold; the claim must still come to an end.
            except InvalidEventError as error:
                self._append_result(claim, finished.replacement(error), finished)
        unwritten.pop(claim.key, None)

    def _append_result(self, claim: Claim, event: EffectResult, finished: FinishedEffect) -> None:
        def decided() -> Iterable[Event]:
            if self._is_wanted(claim):
                return event, *finished.then(event, self)
            return (as_recorded(event, is_wanted=False),)

        self.append_decided(decided, claim)

    def append_decided(self, decide: Callable[[], Iterable[Event]], claim: Claim | None = None) -> None:
        """Append the decided events, and remove the claim; on a version conflict, read and decide again.

        Raises `ClaimLostError`.
        """
        fence = claim.fence if claim else 0
        while True:
            try:
                self.append(*map(self.marked, decide()), fence=fence or None)
                break
            except VersionConflictError:
                self.catch_up()
        # Only after the append: until then the log may stop the effect.
        self.under_way.pop(fence, None)
        self.unwanted.discard(fence)

    def release(self, claim: Claim) -> None:
        """Release a claimed effect without a result: it may be claimed again."""
        self.claims.release(claim)
        self.under_way.pop(claim.fence, None)
        self.unwanted.discard(claim.fence)

    def is_unwanted(self, claim: Claim) -> bool:
        """Return whether the log has stopped a claimed effect."""
        return claim.fence in self.unwanted

    def is_due(self, claim: Claim) -> bool:
        """Return whether the effect of a claim is due, for the same cause."""
        effect = (claim.lane, claim.effect), claim.cause
        return any((key(each), each.cause) == effect for each in effects(self.state))

    def _is_wanted(self, claim: Claim) -> bool:
        # What is not under way here was done by an earlier runner of this process.
        return not self.is_unwanted(claim) and (claim.fence in self.under_way or self.is_due(claim))

    def track(self, claimed: ClaimedEffect) -> ClaimedEffect:
        """Remember a claimed effect, to see whether the log stops it."""
        self.under_way[claimed.claim.fence] = claimed.effect
        return claimed

    def poll(self, busy: Collection[Key], asked: Collection[Key], most: int) -> Poll:
        """Claim at most `most` due effects that are not `busy`; `asked` backends have answered."""
        now = self.conversation.log.edge.clock()
        found = {key(effect): effect for effect in effects(self.state)}
        todo = {name: effect for name, effect in found.items() if name not in busy and self._is_ours(name[0])}
        if not todo:
            return Poll()
        waits = {name: self._seconds_until(effect, now) for name, effect in todo.items()}
        others = {(claim.lane, claim.effect) for claim in self.claims.all()}
        ready = [name for name, left in waits.items() if not left]
        due = [name for name in ready if name not in others][:most]
        unasked = [name for name in due if name not in asked and self._may_be_lost(todo[name])]
        before = self.state.position
        prepared_or_none = (self._prepared(todo[name], now) for name in due if name not in unasked)
        prepared = [each for each in prepared_or_none if each is not None]
        # Preparing has appended a refusal, so what was decided before it may no longer hold.
        if self.state.position != before:
            return Poll(again=True)
        try:
            # At the position that they were decided on: a claim and an append never cross.
            taken = self.claims.take([each.claim for each in prepared], before) if prepared else []
        except VersionConflictError:
            return Poll(again=True)
        pairs = [*zip(prepared, taken, strict=True)]
        held = [name for name in ready if name in others]
        return Poll(
            claimed=tuple(self.track(each._replace(claim=claim)) for each, claim in pairs if claim),
            held=(*held, *(key(each.effect) for each, claim in pairs if claim is None)),
            unasked=tuple(each for name in unasked if isinstance(each := todo[name], CallModel)),
            due=min(filter(None, waits.values()), default=None),
        )

    def append_queued(self) -> bool:
        """Append the oldest queued message again, if all lanes are at rest; return whether there was one."""
        members = self.state.members or tuple(self.agents)
        lanes = (lane for lane in self.state.lanes.values() if lane.agent in members)
        if not self.queue or any(lane.status in BUSY for lane in lanes):
            return False
        waited = self.conversation.entry(self.queue[0])
        if is_erased(waited.event):  # since the last poll
            self.catch_up()
        else:
            self.append_decided(lambda: (dequeue(waited),) if waited.position in self.queue else ())
        return True

    def orphans(self) -> list[Claim]:
        """Take over and return the claims of dead processes."""
        ours = (claim for claim in self.claims.all() if self._is_ours(claim.lane))
        dead = [claim for claim in ours if not self.presence.lives(claim.owner)]
        taken = [mine for claim in dead if (mine := self.claims.take_over(claim, self.presence.owner))]
        if taken:
            # The dead may have appended before they claimed these; without that, nothing would seem due.
            self.catch_up()
        if dead:
            # The file of a dead runner goes only with its last claim: a missing file has its process looked
            # for.
            for owner in {claim.owner for claim in dead} - {claim.owner for claim in self.claims.all()}:
                self.presence.forget(owner)
        return taken

    def still_ours(self, claims: Collection[Claim]) -> list[Claim]:
        """Return the claims that nobody has taken over, and that have no result."""
        fences = {claim.fence for claim in self.claims.all()} if claims else set()
        for claim in claims:
            if claim.fence not in fences:
                self.under_way.pop(claim.fence, None)
        return [claim for claim in claims if claim.fence in fences]

    def _seconds_until(self, effect: Effect, now: datetime) -> float:
        """Return the seconds until an effect may begin, at most its agent's longest wait."""
        if not isinstance(effect, CallModel) or effect.time is None:
            return 0.0
        agent, model = self.agents[effect.lane.agent], self.model_of(effect.lane.agent)
        rest = self.options.breaker_of(model).recovery_time if model else 0.0
        return self.waits.seconds_until(
            effect, now, max(agent.retries.max_delay, agent.retries.max_retry_after, rest)
        )

    def model_of(self, agent: str) -> Model | None:
        """Return the model that an agent's card names now."""
        it = self.agents[agent]
        return it.model_of(self.settings.card_of(agent)) if it.fallbacks else it.llm

    def _is_ours(self, where: str) -> bool:
        return where.partition("/")[0] in self.agents and self.options.lane in ("", where)

    def call_of(self, run: RunTool) -> ToolCall:
        """Return the call as it runs, from the log."""
        return as_approved(self.conversation, self._answer_of(run).tool_calls[run.call.nth], run.call)

    def _answer_of(self, run: RunTool) -> AssistantMessage:
        event = self.conversation.entry(run.call.position).event
        assert isinstance(event, AssistantMessage), "open calls are of answers"
        return event

    def receipt_of(self, claim: Claim) -> Receipt | None:
        """Return the receipt of a claim's request."""
        return RECEIPT.load(claim.receipt) if claim.receipt else None

    def lost(self, effect: CallModel, why: str) -> None:
        """Record that a backend has lost a lane's session; it is called again with all messages."""
        now = self.conversation.log.edge.clock()
        # No call has failed by it, so it is no attempt, and the new backend need not hear of it.
        self._refuse(
            effect._replace(attempt=effect.attempt - 1), "process_exited", why, now, in_context=False
        )

    def _prepared(self, effect: Effect, now: datetime) -> ClaimedEffect | None:
        """Return the effect with what it needs; None if it cannot be claimed: the log has the reason."""
        claim = Claim(
            0,
            effect.lane.address,
            effect.name,
            effect.cause,
            1,
            "",
            self.presence.owner,
            microseconds(now),
        )
        if isinstance(effect, RunTool):
            answer = self._answer_of(effect)
            # Running it once more could do twice what the other system did already.
            if answer.source is not None:
                why = f"it was made in {answer.source.system}, which may have run it"
                self._append_decision(unknown_outcome(effect.call, why))
                return None
            if self.is_foreign(effect.call):
                self._append_decision(
                    unknown_outcome(effect.call, "it came with a file, from a log that may have run it")
                )
                return None
            named = tool_key(self.conversation, effect)
            return ClaimedEffect(effect, claim._replace(key=named), call=self.call_of(effect))
        request = self._request(effect)
        if isinstance(request, AgentCard):
            if not self._append_decision(ModeSwitch(cards={effect.lane.agent: request})):
                self.cards.forget(effect.lane.address)
            return None
        if isinstance(request, tuple):
            self._refuse(effect, *request)
            return None
        named, model = model_key(self.conversation, effect), self.model_of(effect.lane.agent)
        receipt = RECEIPT.dump(request.receipt)
        claim = claim._replace(key=named, attempt=effect.attempt, receipt=receipt)
        return ClaimedEffect(effect, claim, request, model=model)

    def is_foreign(self, call: OpenCall) -> bool:
        """Return whether an imported file approved a call, or made one that needs no approval."""
        spans = self.conversation.imported_ranges()
        return any((call.approved or call.position) in span for span in spans)

    def _request(self, effect: CallModel) -> Request | AgentCard | tuple[ErrorCategory, str]:
        """Return the lane's request, or why there is none: a changed card, or a category and reason."""
        lane = effect.lane
        if self.options.on_unknown == "ask" and (
            reason := needs_confirmation(lane, self.conversation.entries(lane.answered - 1))
        ):
            return "process_exited", reason
        agent, card = self.agents[lane.agent], self.settings.card_of(lane.agent)
        if agent.llm is None or not card.model:
            return "invalid_request", f"agent {lane.agent!r} has no model"
        account = self.accounts.lane(lane.address)
        if reason := self._over(agent, account):
            return "budget", reason
        try:
            if agent.is_patched and (changed := self.cards.due(agent, card, effect, self)) is not card:
                return changed
            model = agent.model_of(card)
            assert model is not None, "it has a first one"
            request = self.conversation.request(lane.agent, api=model.api, task=lane.task)
        # A card holds a policy or a parameter by which no request can be made.
        except CallerError as error:
            return "invalid_request", str(error)
        # Where the log has moved on, taking the claim conflicts, and all is decided anew.
        if not request.sendable and request.at == self.state.position:
            if request.code != "over-budget":
                return "invalid_request", request.reason
            why = self.without_summary.get(lane.agent, "")
            return "context_length", "; ".join(filter(None, (request.reason, why)))
        return request

    def _over(self, agent: Agent, account: LaneUsage) -> str:
        now, prices = self.conversation.log.edge.clock(), self.options.prices
        if not agent.limits.max_cost or agent.llm is None:
            return limit_reached(agent.limits, account, now=now)
        cost = known_cost(account.tokens, prices, account.billed.values())
        # A limit on cost cannot be kept where a model has no price.
        free = {model.name for model in agent.models if model.charges == "nothing"}
        missing = [name for name in unpriced(account.tokens, prices) if name not in free]
        missing = [] if len(free) == len(agent.models) else missing
        return limit_reached(agent.limits, account, cost, now, missing)

    def _refuse(
        self,
        effect: CallModel,
        category: ErrorCategory,
        message: str,
        again: datetime | None = None,
        *,
        in_context: bool = True,
    ) -> None:
        """Record why a call was not made; its lane waits for a person, or until `again`."""
        lane = effect.lane
        refused = LlmError(
            agent=lane.agent,
            task=lane.task,
            category=category,
            message=message,
            cause=effect.cause,
            attempt=effect.attempt,
            retry_at=again,
            in_context=in_context,
        )
        self._append_decision(refused)

    def _append_decision(self, event: Event) -> bool:
        """Append an event, and return whether it was: what came in between may change the decision."""
        try:
            self.append(self.marked(event))
        except VersionConflictError:
            self.catch_up()
            return False
        return True

    def spent(self, where: str, session: str) -> Usage:
        """Return the tokens that the log has for a lane's session."""
        tokens = Tokens()
        for entry in self.conversation.entries():
            match entry.event:
                case AssistantMessage() | LlmError() as event if event.session == session and event.usage:
                    if address(event.agent, event.task) == where:
                        tokens = tokens.plus(event.usage)
                case _:
                    pass
        return Usage(**tokens._asdict())

    def _may_be_lost(self, effect: Effect) -> bool:
        if not isinstance(effect, CallModel) or not effect.lane.answered:
            return False
        model = self.model_of(effect.lane.agent)
        if model is None or not model.remembers:
            return False
        try:
            return policy(self.settings.card_of(effect.lane.agent).policy).history.delta
        # Building the request says what is wrong with the policy.
        except InvalidPolicyError:
            return False

    def take(self, entry: Entry) -> None:
        """Take the next entry in; see which effects it stops."""
        super().take(entry)
        self.waits.take(entry)
        self.unwanted.update(
            fence for fence, it in self.under_way.items() if not is_still_needed(self.state, it)
        )

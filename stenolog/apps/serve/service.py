"""Methods of the service: each takes an object of `messages`, and returns another.

Any thread may call a method. `Service.methods` are all of them, by name.
"""

from __future__ import annotations

import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, get_type_hints

from pydantic import ValidationError

from stenolog._version import __version__
from stenolog.adapters.conversation.log import Conversation, Log, extend, submit
from stenolog.adapters.conversation.queries.plain_json import entry_data, event_from_json, plain, when
from stenolog.adapters.engine.approvals import check_fit
from stenolog.adapters.engine.journal.work import ClaimedEffect
from stenolog.adapters.store.contract.values import InTransaction
from stenolog.adapters.tools.calls import answered_questions, as_approved, call_at
from stenolog.domain.base.near_names import closest
from stenolog.domain.entry import Entry, NewEntry
from stenolog.domain.errors import DuplicateIdError, InvalidEventError
from stenolog.domain.events import Event, UserMessage
from stenolog.domain.lanes import effects
from stenolog.domain.lanes.state import OpenCall, address, decision
from stenolog.domain.parts import ToolCall
from stenolog.projections.requests import Request

from . import messages as m
from . import runner_messages as r
from .faults import InvalidParamsError, MethodNotFoundError, invalid_params
from .outcomes import ModelCall, given_fields, model_event, new_entries, receipt_from
from .runner import Owners, RemoteRunner

PROTOCOL = 1
OTHERS = 1.0
"""The seconds between two looks at the effects of other runners."""
SLICE = 0.5
"""The seconds after which a call that waits sees that the service is closed."""


Clock: TypeAlias = Callable[[], float]
Wake: TypeAlias = Callable[[Conversation], InTransaction | None] | None


class Method(NamedTuple):
    """A method: name, classes of parameters and result, and its function."""

    name: str
    params: type[m.Message]
    result: type[m.Message]
    call: Callable[[Any], m.Message]
    help: str


class Service:
    """A log, served; `is_leased`: see `Owners`; `wake` returns what wakes a worker with a message."""

    def __init__(
        self, log: Log, *, is_leased: bool = False, stopwatch: Clock = time.monotonic, wake: Wake = None
    ) -> None:
        self.log = log
        self.wake = wake
        self._is_closing = threading.Event()
        self.owners = Owners(log, stopwatch, is_leased=is_leased)
        self.methods: Mapping[str, Method] = {name: _method(self, name) for name in METHODS}

    def call(self, name: str, given: bytes) -> m.Message:
        """Call a method with its parameters as JSON. Raises the errors of the method, and `CallerError`."""
        method = self.methods.get(name)
        if method is None:
            meant = closest(name, [*self.methods])
            hint = f"; did you mean {meant!r}?" if meant else f"; there is {', '.join(self.methods)}"
            raise MethodNotFoundError(f"no method {name!r:.60}{hint}")
        try:
            params = method.params.model_validate_json(given)
        except ValidationError as error:
            raise invalid_params(error) from None
        return method.call(params)

    def close(self) -> None:
        """End waiting calls, and the owners of claims; the log stays open."""
        self._is_closing.set()
        self.owners.close()

    # The methods.

    def about(self, params: m.Nothing) -> m.About:
        """Return the version of stenolog, and that of this protocol."""
        return m.About(stenolog=__version__, protocol=PROTOCOL, methods=[*self.methods])

    def conversations(self, params: m.ConversationsParams) -> m.Conversations:
        """Return the names of conversations."""
        names = self.log.names(
            prefix=params.prefix, archived=params.archived, limit=params.limit, order=params.order
        )
        return m.Conversations(names=names)

    def append(self, params: m.AppendParams) -> m.WrittenEntries:
        """Append events, all of them or none; with ids of their own, a repeated call writes nothing."""
        conversation, new = self._conversation(params), new_entries(params.events)
        also = self._waking(conversation, [each.event for each in new])
        return written_message(extend(conversation, new, params.expected, also=also))

    def submit(self, params: m.SubmitParams) -> m.WrittenEntries:
        """Append a command if the state allows it: an approval, a stop, a change of mode."""
        conversation = self._conversation(params)
        event = event_from_json(params.kind, params.event)
        check_fit(conversation, event)
        entries = submit(conversation, event, params.id, self._waking(conversation, [event]))
        # If nothing is left to do, nothing is written.
        if not entries:
            return m.WrittenEntries(position=conversation.position, entries=[])
        return written_message(entries)

    def join(self, params: m.JoinParams) -> m.Joined:
        """Have an agent take part with this card; nothing is appended if it does already."""
        fields = params.model_dump(exclude={"conversation", "agent"}, exclude_none=True)
        entry = self._conversation(params).join(params.agent, **fields)
        return m.Joined(entry=None if entry is None else entry_message(entry))

    def request(self, params: m.RequestParams) -> m.AgentRequest:
        """Return an agent's request: the body to send, and the receipt to give back with the answer."""
        request = self._conversation(params).request(
            params.agent, params.at, params.api, task=params.task, policy=params.policy
        )
        return request_message(request, text=params.with_text, explained=params.with_explanation)

    def answer(self, params: r.AnswerParams) -> m.WrittenEntries:
        """Append the outcome of a model call of one's own loop: the answer, or the failure with its text."""
        conversation = self._conversation(params)
        if (written := _written_under(conversation, params.id)) is not None:
            return written
        if "events" in given_fields(params.outcome):
            raise InvalidEventError("/outcome: events are appended by the method append")
        lane = conversation.state().lane(address(params.agent, params.task))
        attempt = lane.attempt + 1
        receipt = receipt_from(params.receipt)
        tools = conversation.settings().card_of(params.agent).tools or ()
        call = ModelCall(
            params.agent, params.task, receipt, attempt=attempt, retried=params.retry, tools=tools
        )
        event = model_event(params.outcome, call, self.log.edge.clock())
        try:
            return written_message(conversation.extend([NewEntry(event, params.id)]))
        except DuplicateIdError:
            # Another process gave its answer under that id after we had looked.
            if (written := _written_under(conversation, params.id)) is None:
                raise
            return written

    def entries(self, params: m.EntriesParams) -> m.Entries:
        """Return the entries of a conversation, in order; damaged and erased ones have another kind."""
        return self._read(self._conversation(params), params.after, params.at, params.limit)

    def tail(self, params: m.TailParams) -> m.Entries:
        """Return the entries after a position, as soon as there are any; none if none came in time."""
        conversation = self._conversation(params)
        if conversation.position <= params.after:
            self._wait(conversation, params.after, params.wait)
        return self._read(conversation, params.after, None, params.limit)

    def state(self, params: m.AtParams) -> m.State:
        """Return the state of every lane, the settings, and the effects that the log asks for next."""
        conversation = self._conversation(params)
        state = conversation.state(params.at)
        return m.State(
            conversation=conversation.name,
            position=state.position,
            state=plain(state),
            settings=plain(conversation.settings(state.position)),
            decisions={lane: plain(decision(state, each)) for lane, each in state.lanes.items()},
            effects=[effect_message(conversation, each) for each in effects.effects(state)],
        )

    def timeline(self, params: m.AtParams) -> m.Timeline:
        """Return the items that a user interface shows."""
        conversation = self._conversation(params)
        position = conversation.position if params.at is None else params.at
        items = conversation.timeline(position)
        return m.Timeline(conversation=conversation.name, position=position, items=plain(items))

    def transitions(self, params: m.TransitionsParams) -> m.Transitions:
        """Return the engine's steps, entry by entry."""
        conversation = self._conversation(params)
        found = [each for each in conversation.transitions(params.at) if each.position > params.after]
        return m.Transitions(conversation=conversation.name, transitions=plain(found))

    def search(self, params: m.SearchParams) -> m.Hits:
        """Return the entries that contain words, the best first."""
        hits = self.log.search(params.query, **params.model_dump(exclude={"query"}))
        return m.Hits(hits=[m.Hit(**plain(hit) | {"marks": list(hit.marks)}) for hit in hits])

    def output(self, params: m.OutputParams) -> m.OutputText:
        """Return a part of a large output, by the alias that requests name it by."""
        found = self._conversation(params).outputs.read(params.alias, params.offset, params.limit)
        return m.OutputText(**found._asdict() | {"next": found.next})

    def fork(self, params: m.ForkParams) -> m.Forked:
        """Return a new conversation that shares the entries up to a position."""
        forked = self._conversation(params).fork(params.after, params.name, params.pending)
        return m.Forked(conversation=forked.name, position=forked.position)

    def claim(self, params: r.ClaimParams) -> r.Work:
        """Claim the model calls and tool calls that are due; those of dead runners are settled before."""
        if self.owners.is_leased and not params.owner:
            raise InvalidParamsError("/owner: expected a name of the runner, by which its lease is renewed")
        conversation, end = self._conversation(params), time.monotonic() + params.wait
        while True:
            runner = self.owners.renew(params.owner, params.lease).runner(conversation)
            claimed, poll, position = runner.claim(params)
            left = end - time.monotonic()
            if claimed or left <= 0 or self._is_closing.is_set():
                break
            # A lease must not end while its owner waits here, the next effect may be due by time alone, and
            # another runner may die without a word.
            pauses = [left, params.lease / 2, poll.due, OTHERS if poll.held else None]
            self._wait(conversation, position, max(0.01, min(each for each in pauses if each is not None)))
        return r.Work(
            position=position,
            claimed=[claimed_message(conversation, each) for each in claimed],
            held=len(poll.held),
            due=poll.due,
        )

    def settle(self, params: r.SettleParams) -> m.WrittenEntries:
        """Append the outcome of a claimed effect, and end the claim, in one transaction."""
        runner = self._runner(params, params.owner)
        return written_message(runner.settle(params.fence, params.outcome, params.id))

    def draft(self, params: r.DraftParams) -> m.Nothing:
        """Keep text of an answer as it streams: if the runner dies, the log has it."""
        self._runner(params, params.owner).draft(params.fence, params.text)
        return m.Nothing()

    def release(self, params: r.FenceParams) -> m.Nothing:
        """Let a claimed effect go that was not begun, or may be begun again."""
        self._runner(params, params.owner).release(params.fence)
        return m.Nothing()

    def renew(self, params: r.RenewParams) -> m.Nothing:
        """Report that a runner is still at work on what it has claimed."""
        self.owners.renew(params.owner, params.lease)
        return m.Nothing()

    def claims(self, params: r.ClaimsParams) -> r.OpenClaims:
        """Return the effects that runners are at, in whatever language they are written."""
        return r.OpenClaims(
            claims=[r.OpenClaim(**plain(each)) for each in self.log.claims(params.conversation)]
        )

    def put_blob(self, params: m.Blob) -> m.BlobParams:
        """Keep bytes, to be named by an event that is appended next."""
        try:
            content = b64decode(params.base64, validate=True)
        except ValueError as error:
            raise InvalidParamsError(f"/base64: {error}") from None
        return m.BlobParams(sha256=self.log.blobs.put(content))

    def blob(self, params: m.BlobParams) -> m.Blob:
        """Return the bytes of a picture, a file or a long text."""
        return m.Blob(base64=b64encode(self.log.blobs[params.sha256]).decode())

    # Their parts.

    def _conversation(self, params: m.InConversation) -> Conversation:
        return self.log[params.conversation]

    def _waking(self, conversation: Conversation, said: Sequence[Event]) -> InTransaction | None:
        return (
            self.wake(conversation) if self.wake and any(isinstance(e, UserMessage) for e in said) else None
        )

    def _runner(self, params: m.InConversation, owner: str) -> RemoteRunner:
        return self.owners.renew(owner).runner(self._conversation(params))

    def _wait(self, conversation: Conversation, after: int, seconds: float) -> None:
        """Wait for an entry after a position, the time's end, or the service's."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._is_closing.is_set():
            if any(True for _ in islice(conversation.tail(after, timeout=min(left, SLICE)), 1)):
                return

    def _read(self, conversation: Conversation, after: int, at: int | None, limit: int) -> m.Entries:
        found = list(islice(conversation.entries(after, at), limit))
        position = found[-1].position if found else max(after, min(conversation.position, at or after))
        return m.Entries(position=position, entries=[entry_message(each) for each in found])


METHODS = tuple(
    name
    for name, method in vars(Service).items()
    if name[0] != "_" and "params" in getattr(method, "__annotations__", ())
)
"""The names of the methods, in the order of the reference."""
WRITES = frozenset(("append", "submit", "join", "answer", "settle", "draft", "release", "fork"))
"""The methods that write to one conversation, at once."""


def _written_under(conversation: Conversation, id: str | None) -> m.WrittenEntries | None:
    entry = None if id is None else conversation.entry_by_id(id)
    return None if entry is None else written_message([entry])


def _method(service: Service, name: str) -> Method:
    call = getattr(service, name)
    hints = get_type_hints(call)
    return Method(name, hints["params"], hints["return"], call, getdoc(call) or "")


AS_THEY_ARE = ("agent", "task", "at", "api", "body", "sendable", "reason", "obstacle", "code", "sha256")
"""The fields of a request that its message has under the same names."""


def entry_message(entry: Entry) -> m.Entry:
    """Return an entry as JSON."""
    return m.Entry(**entry_data(entry))


def written_message(entries: list[Entry]) -> m.WrittenEntries:
    """Return entries that were written."""
    return m.WrittenEntries(position=entries[-1].position, entries=[entry_message(each) for each in entries])


def request_message(request: Request, *, text: bool = False, explained: bool = False) -> m.AgentRequest:
    """Return a request, with its text and its explanation if wanted."""
    explanation = (
        {name: plain(getattr(request, name)) for name in ("size", "parts", "omissions")}
        if explained
        else None
    )
    return m.AgentRequest(
        **{name: getattr(request, name) for name in AS_THEY_ARE},
        receipt=plain(request.receipt),
        text=request.bytes.decode() if text else None,
        explanation=explanation,
    )


def call_message(conversation: Conversation, call: OpenCall, runs: ToolCall) -> m.Call:
    """Return an open call, as it runs."""
    answered = answered_questions(conversation, call)
    return m.Call(
        id=runs.id,
        name=runs.name,
        arguments=runs.arguments,
        entry=call.entry,
        index=call.nth,
        position=call.position,
        answers=[m.AnsweredQuestion(question=asked.text, answer=said) for asked, said in answered],
    )


def effect_message(conversation: Conversation, effect: effects.Effect) -> m.Effect:
    """Return an effect that the log asks for."""
    call, attempt, time = None, 1, None
    if isinstance(effect, effects.RunTool):
        call = call_message(
            conversation,
            effect.call,
            as_approved(conversation, call_at(conversation, effect.call), effect.call),
        )
    else:
        attempt, time = effect.attempt, effect.time
    left = 0.0 if time is None else (time - conversation.log.edge.clock()).total_seconds()
    return m.Effect(
        lane=effect.lane.address,
        effect=effect.name,
        cause=effect.cause,
        attempt=attempt,
        not_before=None if time is None else when(time),
        due=max(0.0, left),
        call=call,
    )


def claimed_message(conversation: Conversation, each: ClaimedEffect) -> r.Claimed:
    """Return a claimed effect."""
    effect = each.effect
    call = None
    if isinstance(effect, effects.RunTool):
        assert each.call is not None, "a tool runs a call"
        call = call_message(conversation, effect.call, each.call)
    return r.Claimed(
        fence=each.claim.fence,
        lane=effect.lane.address,
        agent=effect.lane.agent,
        task=effect.lane.task,
        effect=effect.name,
        cause=effect.cause,
        attempt=each.claim.attempt,
        key=each.claim.key,
        request=None if each.request is None else request_message(each.request),
        call=call,
    )

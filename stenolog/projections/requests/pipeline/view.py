"""View: the entries that one lane can see, and those that its policy dropped.

All stages read a view, and two change it. Stage 1 decides on arrival (`take`) whether an entry is for the
lane, by address and the scope of that moment. Stage 7 (`budget.fit`, `budget.tidy`) removes entries
permanently: for a cap, or a summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, ModeSwitch
from stenolog.domain.lanes.state import State, Summary, address, summary_of
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.lanes.triggers import response_of
from stenolog.domain.policy import Policy
from stenolog.domain.settings import NOTHING, Settings, configure
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.explanation import Omission
from stenolog.projections.messages.message import EMPTY_BLOBS, PIPELINE, PIPELINES, Message
from stenolog.projections.messages.rules import NO_ROOM
from stenolog.projections.messages.sizes import ESTIMATE, LEARNED, OVERHEAD, PLAIN, Counter, count_parts
from stenolog.projections.views.context import SummaryRecord, read_context
from stenolog.projections.views.tool_pairs import CallKey, Pair, ToolCallIndex

from .attribution import attribute, chosen, rewritten
from .attribution_style import attribution_style
from .bills import NO_BILLS, Bills
from .edits import is_edit
from .lane import LaneId, LaneMemory, Now, remember
from .lane_apis import SIGNS, LaneApis, with_entry
from .measure import Measure
from .omissions import merge_cuts, said_by
from .summaries import Before, Scopes, hiding
from .truncation import truncate
from .visibility import exclusion_rule

# Bounds the snapshot. Older runs are taken together, and so hide too much rather than too little.
LEAST_PRIVATE = 256
"""The number of runs of what was not for the lane that are known exactly."""

LATEST, CUT_OFF, AT_WORK = "latest-message", "cut-off", "at-work"
NEWEST = frozenset({LATEST, CUT_OFF, AT_WORK})
"""Reasons for which something has to stay until something newer of its kind comes."""


class Contents(NamedTuple):
    """The contents of a view in units that are never cut in two.

    `left_out` has the rule for each entry that is out of context, `edits` the message that each edit changes,
    `entries` the shown entries in order.
    """

    units: list[tuple[Message, ...]]
    left_out: dict[int, str]
    entries: list[Entry]
    edits: dict[int, int]


NOTHING_SHOWN = Contents([], {}, [], {})


class Arrival(NamedTuple):
    """An entry as it arrived: the rule that hides it ("": none), its call and result, its summary."""

    rule: str
    pair: Pair | None
    made: Summary | None


class Uncut(NamedTuple):
    """A view before the cut that a message of a response made."""

    # Where a further message of the same response follows, the cut is decided anew for the whole response.
    # So a response that was imported in pieces, while its file was growing, is cut as one imported whole.

    response: str
    entries: list[Entry]
    left_out: list[Omission]
    summaries: list[SummaryRecord]
    pairing: ToolCallIndex
    cuts: int
    bills: Bills


class View:
    """The view of one lane under one policy.

    `entries` are those that the lane may be shown, `left_out` the hidden runs, with the rule. `private` are
    the runs of what was not for the lane, which no summary may mention. `cuts` is the number of cuts so far.
    `voice` is the lane, and all others whose words the policy shows as its own. `version` is the pipeline's.
    `holes` are the reasons for which something older stayed beside what had no room. `bills` are the lane's,
    and `rate` is theirs, under a policy with the learned counter.
    """

    def __init__(
        self,
        lane: LaneId,
        policy: Policy,
        counter: Counter = ESTIMATE,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    ) -> None:
        """`blobs` are measured only under a budget in bytes. Raises `InvalidPolicyError`."""
        self.lane, self.policy, self.counter = lane, policy, counter
        self.version = PIPELINES[policy.pipeline or PIPELINE]
        self.style = attribution_style(lane, policy, counter)
        self.voice = self.style.lane
        self.transforms = chosen(policy.rewrites)
        in_modes = policy.instructions is not None and bool(policy.instructions.tools_in)
        self.measure = Measure(policy.budget, counter, blobs, in_modes=in_modes)
        self.position = 0
        self.state: State = INITIAL
        self.settings: Settings = NOTHING
        self.memory = LaneMemory()
        self.apis = LaneApis()
        self._api: tuple[LaneApis | None, str] = (None, "")
        self.pairing = ToolCallIndex()
        self.entries: list[Entry] = []
        self.left_out: list[Omission] = []
        self.summaries: list[SummaryRecord] = []
        self.private: list[tuple[int, int]] = []
        self.scopes: list[Scopes] = []
        self.cuts = 0
        self.holes: frozenset[str] = frozenset()
        self.uncut: Uncut | None = None
        self.learns = counter.id == LEARNED.id
        self.bills, self.rate = NO_BILLS, PLAIN
        self._latest: Event | None = None

    def take(self, entry: Entry) -> Arrival:
        """Take the log's next entry in; decide whether it is for the lane."""
        self._latest = event = entry.event
        if self.uncut is not None:
            self._take_cut_back()
        before, where = self.state, self.lane.address
        self.position = entry.position
        self.state = evolve(before, entry)
        if isinstance(event, ModeSwitch):
            known, self.settings = self.settings, configure(self.settings, entry)
            self._keep_scopes(known)
        if isinstance(event, SIGNS):
            self.apis = with_entry(self.apis, entry)
        token, after = self.pass_token, self.state
        stood = before.lanes.get(where) or before.lane(where)
        stands = after.lanes.get(where) or after.lane(where)
        now = Now(self.lane, stood, stands, self.settings, token, self.version)
        self.memory = remember(self.memory, entry, now)
        pair = self.pairing.take(entry)
        call, scope = pair.call if pair else None, self.settings.scope_of(self.lane.agent)
        # Decided on arrival, under the scope that holds now: a later change of scope changes no past.
        own = self.policy.voices is None or self.policy.voices.own_passes
        rule, summary = exclusion_rule(event, self.voice, scope, call, token, own=own), None
        if isinstance(event, AssistantMessage) and (event.covers or event.purpose == "summary"):
            take = self._take_summary if self.version > 5 else self._take_shared_summary
            rule, summary = take(entry.position, event, rule)
        if rule:
            self._pass_over(entry, rule)
        else:
            self.entries.append(entry)
            if summary:
                # As it was then: a result that came later must not change whether the summary was allowed.
                open_calls = tuple(call.position for _, call in before.open_calls())
                self.summaries.append(SummaryRecord(summary, open_calls))
        if self.learns:
            self._learn(entry, is_shown=not rule)
        return Arrival(rule, pair, summary)

    def _take_summary(self, position: int, event: AssistantMessage, rule: str) -> tuple[str, Summary | None]:
        summary = None if rule else summary_of(position, event, [each.summary for each in self.summaries])
        if summary is None:
            return rule, None
        # A lane that could not see what a summary tells of is not shown the summary either.
        if summary.author != self.lane.address and self._tells_too_much(summary):
            return "not-addressed", None
        before = Before(self.lane, self.entries, self.settings, self.pairing, self.scopes, self.pass_token)
        return "", hiding(summary, before)

    def _take_shared_summary(
        self, position: int, event: AssistantMessage, rule: str
    ) -> tuple[str, Summary | None]:
        """Return the same by the rule of `requests@5`: a summary is for all who saw enough."""
        if rule == "private-purpose" and event.purpose == "summary":
            rule = ""
        spans = tuple(event.covers)
        summary = Summary(position, address(event.agent, event.task), spans) if spans else None
        if summary and not rule and event.agent != self.lane.agent and self._tells_too_much(summary):
            rule = "not-addressed"
        return rule, summary and summary._replace(author=self.lane.address)

    @property
    def api(self) -> str:
        """The API of the lane's answers."""
        if self._api[0] is not self.apis:
            self._api = self.apis, self.apis.of(self.lane)
        return self._api[1]

    @property
    def known_api(self) -> tuple[str, ...]:
        """The API if it has been asked for, and the names of all among which it was found; else empty."""
        return (self._api[1], *FORMATS) if self._api[0] is self.apis else ()

    @known_api.setter
    def known_api(self, found: tuple[str, ...]) -> None:
        # To find it by a model's name loads all formats.
        if found[1:] == tuple(FORMATS):
            self._api = self.apis, found[0]

    def messages_of(self, entry: Entry) -> tuple[Message, ...]:
        """Return an entry's messages for the lane: truncated, attributed and rewritten."""
        pair = self.pairing.pairs.get(entry.position)
        call = pair.call if pair else None
        tool = call.name if call is not None and self.voice.owns(call) else ""
        shorter = truncate(entry, self.policy.compact, self.counter, tool=tool, version=self.version)  # 3
        messages = attribute(entry, self.style, pair, shorter)  # stage 4
        if self.transforms:
            messages = rewritten(messages, entry, self.transforms, self.counter)  # stage 4, its end
        return messages

    def _learn(self, entry: Entry, *, is_shown: bool) -> None:
        """Take an entry's bill in, and what it adds to the lane's requests."""
        from stenolog.projections.views.usage import counts_elsewhere  # late: most programs do not need it

        event, bills, goes_on = entry.event, self.bills, False
        # What leaves the context, or comes back, makes two bills no measure of what came between them.
        if isinstance(event, ModeSwitch) or getattr(event, "covers", None) or is_edit(event):
            bills = bills.interrupted()
        elif isinstance(event, AssistantMessage) and self.lane.wrote(event) and event.purpose == "answer":
            response = response_of(event)
            goes_on = bool(response) and response == bills.response
            bills = bills.with_answer(response)
            if event.usage is not None and event.usage.input and not counts_elsewhere(event):
                bills = bills.with_bill(self.memory.model, event.usage.input)
        if is_shown:
            sizes = [count_parts(message.parts) + OVERHEAD for message in self.messages_of(entry)]
            bills = bills.with_text(sum(sizes) - OVERHEAD * (goes_on and bool(sizes)))
        self.learn(bills)

    def learn(self, bills: Bills) -> None:
        """Take over the bills of the lane, and count at their rate from now on."""
        self.bills = bills
        if self.learns and self.position:
            card = self.settings.card_of(self.lane.agent)
            self.rate = bills.rate(self.memory.model or card.model)

    def cut(self, gone: Mapping[int, str], rule: str, oldest: int) -> None:
        """Remove entries because a cap is outgrown, by a rule.

        `oldest` is the first position that stays and counts against the cap.
        """
        if self.uncut is None and (response := self._response):
            pairing = ToolCallIndex(self.pairing.waiting, self.pairing.pairs.values())
            held = self.entries, self.left_out, self.summaries, pairing, self.cuts, self.bills
            self.uncut = Uncut(response, *held)
        self.cuts += 1
        if self.learns:
            self.bills = self.bills.interrupted()
        # Before newer ones, or with nothing older that counts, they are just older: the runs must not grow.
        anew = min((position for position, why in gone.items() if why == NO_ROOM), default=0)
        edge = max(anew, oldest)
        self.left_out = [
            run._replace(rule=rule) if run.rule == NO_ROOM and run.last < edge else run
            for run in self.left_out
        ]
        self.drop({position: rule if position < edge else why for position, why in gone.items()})

    def drop(self, gone: Mapping[int, str]) -> None:
        """Remove entries permanently, each by a rule."""
        dropped, kept = self.entries[: len(gone)], self.entries[len(gone) :]
        # Mostly the oldest are gone.
        if [entry.position for entry in dropped] != [*gone]:
            dropped = [entry for entry in self.entries if entry.position in gone]
            kept = [entry for entry in self.entries if entry.position not in gone]
        self.entries = kept
        positions_shown = [entry.position for entry in self.entries]
        self.left_out = merge_cuts(
            self.left_out, [self._omission(e, gone[e.position]) for e in dropped], positions_shown
        )
        positions = set(positions_shown)
        # Pairs of dropped entries go too, so that the view does not grow with the log.
        self.pairing.forget(positions)
        self.summaries = [record for record in self.summaries if record.summary.position in positions]

    def _take_cut_back(self) -> bool:
        """Undo the last cut if the next entry belongs to the response that it split; return whether."""
        uncut, self.uncut = self.uncut, None
        if uncut is None or uncut.response != self._response:
            return False
        _, self.entries, self.left_out, self.summaries, self.pairing, self.cuts, self.bills = uncut
        self.holes = NEWEST
        return True

    @property
    def in_force(self) -> tuple[Summary, ...]:
        """The summaries that replace something that the lane could be shown."""
        if not self.summaries:
            return ()
        own = self.lane.agent
        return read_context(self.entries, self.settings, self.pairing, self.summaries, own).summaries

    @property
    def summarised(self) -> bool:
        """True if a summary is in force."""
        return self.version > 5 and bool(self.in_force)

    @property
    def continues_session(self) -> bool:
        """True if the request continues a session whose backend has the earlier messages."""
        own = self.memory
        return self.policy.history.delta and bool(own.answered) and own.died < own.answered

    def waits_for(self, call: CallKey, *, is_latest: bool) -> bool:
        """Return whether a call without a result may still get one; `is_latest`: no answer came since."""
        if self.version < 6:
            return True
        # The lane's next answer was built on this placeholder, so it stays what it was then.
        return is_latest and any((one.position, one.nth) == call for _, one in self.state.open_calls())

    def counts(self, rule: str) -> bool:
        """Return whether a cap counts now: messages in a living session are not sent."""
        return rule != "beyond-last" or not self.continues_session

    @property
    def pass_token(self) -> str:
        """The word by which an agent passes, or ""."""
        turns = self.settings.turns
        token = turns.options.get("pass_token") if turns is not None else None
        mine = self.policy.voices.pass_token if self.policy.voices else ""
        return mine or (token if isinstance(token, str) else "")

    @property
    def _response(self) -> str:
        event = self._latest
        return response_of(event) if isinstance(event, AssistantMessage) and self.voice.owns(event) else ""

    def _pass_over(self, entry: Entry, rule: str) -> None:
        position = entry.position
        if rule == "not-addressed":
            self._keep_private(position)
        if rule == "setting":
            return
        now = self._omission(entry, rule)
        last = self.left_out[-1] if self.left_out else None
        nothing_since = not self.entries or last is None or self.entries[-1].position < last.last
        if last is not None and last.rule == rule and nothing_since:
            self.left_out[-1] = last._replace(last=position, tokens=last.tokens + now.tokens)
        else:
            self.left_out.append(now)

    def _omission(self, entry: Entry, rule: str) -> Omission:
        tokens = count_parts(said_by(entry.event), self.counter)
        return Omission(entry.position, entry.position, rule, tokens)

    def _keep_scopes(self, known: Settings) -> None:
        now = self.settings
        if (known.scope, known.scopes) != (now.scope, now.scopes):
            self.scopes.append(Scopes(self.position, now.scope, now.scopes))

    def _keep_private(self, position: int) -> None:
        first, last = self.private.pop() if self.private else (position, position)
        if last < position - 1:
            self.private.append((first, last))
            first = position
        self.private.append((first, position))
        if len(self.private) > LEAST_PRIVATE:
            (oldest, _), (_, next_last), *rest = self.private
            self.private = [(oldest, next_last), *rest]

    def _tells_too_much(self, summary: Summary) -> bool:
        return any(s.first <= last and first <= s.last for first, last in self.private for s in summary.spans)

"""Build the request that one lane's model receives at one position of a log.

Read this file first. A request is a pure function of the log: the same entries, lane, policy and API give the
same bytes on any machine, in any Python. No stage reads a clock, draws a random number or performs I/O.

A log becomes a body in eight stages. The first seven are pure functions in `pipeline/`, in the files named
beside them. Each records what it did with every entry, so that the explanation accounts for all of them:

    1 visible      drop entries that the lane may not see (`visibility`)
    2 edited       put edits and summaries in the place of what they replace (`edits`)
    3 truncated    replace a large tool output by a preview and an alias (`truncation`)
    4 attributed   own words are `assistant`, others' are quoted; then the transforms (`attribution`)
    5 grouped      make one unit of an answer, its calls and one result for each (`tool_groups`)
    6 prompt       add system text and tools before the conversation, notes around it (`prompt`)
    7 fitted       drop the oldest units until the rest fits the budget (`budget`)
    8 rendered     write the body of one provider's API (`formats`)

`build_reference` gives the entries one by one to a view (`take`), which folds what the stages ask for:
settings, the lane's memory, the pairs of calls and results. The stages work at three moments:

    on arrival         1, in part: whom the entry is for, under the scope of that moment (`View.take`)
    after each entry   7, under a budget (`take`)
    at a request       1 to 6 and 8, which change nothing in the view (`request_of`)

A unit is kept or dropped as a whole, so a call never loses its result. A request can be built at any
position. If no process would send it, it is a preview: `sendable` is false, and `reason` says why.

This module is the definition. Without a budget it takes time proportional to the log; under one it looks at
all that is shown after each entry. `incremental` gives the same requests in constant time per entry, from
windows that it advances: `tests/requests/windows/test_session_equals_builder.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from stenolog.domain.entry import Entry
from stenolog.domain.policy import Policy, PolicyLike
from stenolog.domain.settings import NOTHING, settings
from stenolog.projections.formats import format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.messages.explanation import Explanation, ready
from stenolog.projections.messages.message import EMPTY_BLOBS, Message
from stenolog.projections.messages.sizes import COUNTERS, ESTIMATE, Counter
from stenolog.projections.views.context import read_context

from .choosing import choose
from .pipeline.budget import caps, fit, since_last_turn, tidy
from .pipeline.edits import edited, with_notes
from .pipeline.lane import LaneId
from .pipeline.omissions import dropped
from .pipeline.prompt import surround, tools_called, with_away
from .pipeline.tool_groups import grouped, preview_note
from .pipeline.view import Contents, View
from .pipeline.visibility import visible
from .request import Request
from .sendable import check_askable, finished


def build_reference(
    entries: Iterable[Entry],
    agent: str,
    *,
    task: str = "",
    api: str | Format | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, Counter] = COUNTERS,
) -> Request:
    """Build the request that the lane (agent, task) would send after these entries, on an API.

    `policy` None is the one on the agent's card, `api` None that of its answers; a new agent has an empty
    card. Raises `AgentNotFoundError` for a likely misspelling, `UnsupportedVersionError` for an entry of a
    later release, `InvalidPolicyError`.
    """
    log = list(entries)
    chosen, counter = choose(settings(log) if policy is None else NOTHING, agent, policy, counters)
    view = ReadView(LaneId(agent, task), chosen, counter, blobs)
    for entry in log:
        take(view, entry)
    return request_of(view, api, blobs)


class ReadView(View):
    """A view with a ledger: `read` are the positions whose words were read since it was emptied."""

    def __init__(
        self,
        lane: LaneId,
        policy: Policy,
        counter: Counter = ESTIMATE,
        blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    ) -> None:
        super().__init__(lane, policy, counter, blobs)
        self.read: set[int] = set()

    def messages_of(self, entry: Entry) -> tuple[Message, ...]:
        self.read.add(entry.position)
        return super().messages_of(entry)


def take(view: View, entry: Entry) -> None:
    """Take the log's next entry into a view; drop entries that exceed its policy (stage 7)."""
    arrival = view.take(entry)
    # After each entry, as though the policy had always been in force. Otherwise a request would depend on
    # which requests were built before it.
    if caps(view.policy):
        fit(view, lambda: contents(view))  # 7
        # Only a summary can make entries superfluous that no cap removes.
        if arrival.made:
            tidy(view, contents(view))


def contents(view: View) -> Contents:
    """Return a view's conversation in units that are never cut in two (stages 1 to 5)."""
    entries, lane, agent = view.entries, view.voice, view.lane.agent
    context = read_context(entries, view.settings, view.pairing, view.summaries, agent)
    left_out = visible(entries, lane, context, view.memory.answered)  # 1
    shown = edited(entries, left_out, lane, context, view.policy.pins)  # 2
    messages = [message for entry in shown.shown for message in view.messages_of(entry)]  # 3 and 4
    shown_positions = {entry.position for entry in shown.shown}
    units_grouped = grouped(messages, view.style, view.pairing.results, shown_positions, view.waits_for)  # 5
    units = with_notes(units_grouped, shown.anew)
    return Contents([unit for unit in units if unit], shown.left_out, shown.shown, context.edits)


def request_of(view: ReadView, api: str | Format | None, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> Request:
    """Return a view's request on an API (stages 6 and 8). Raises as `build_reference`."""
    check_askable(view)
    view.read = set()
    shown = contents(view)
    fresh, delivered = since_last_turn(view, shown.units, view.entries)
    units, _ = with_away(view, fresh, shown.entries)
    sent = [*chain.from_iterable(units)]
    around = surround(view, tools_called(sent), shown.entries)  # 6
    end = sent[-1] if sent else None
    messages = [*around.first, *sent, *preview_note(end), *around.behind]
    chosen = format_of(api or view.api)
    # Rendered before the omissions are listed: an API may leave out parts as well.
    rendered = chosen.rendered(messages, around.preamble, blobs)  # 8
    # An entry that is out of context is told so, though the backend may have it.
    rules = {**dict.fromkeys(delivered, "delivered"), **shown.left_out}
    gone = dropped(view.left_out, view.entries, rules, messages, rendered.omitted, view.counter)
    words = {position for part in rendered.parts for position in part.positions}
    explanation = Explanation(rendered.parts, tuple(gone), frozenset(view.read | words))
    return finished(view, chosen, rendered.body, ready(explanation), end, lambda: shown, around.renamed)

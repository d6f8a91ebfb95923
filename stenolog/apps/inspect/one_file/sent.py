"""Requests of a log's model calls, built in one pass over the log for each lane and policy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.erasure import is_gone
from stenolog.domain.errors import StenologError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.policy import Policy
from stenolog.domain.values import Receipt
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import PIPELINES
from stenolog.projections.messages.sizes import Counter
from stenolog.projections.requests import LaneId, Request, lanes
from stenolog.projections.requests.as_sent import SentForms
from stenolog.projections.requests.incremental.series import at_views
from stenolog.projections.requests.lane_rates import LaneRates
from stenolog.projections.requests.pipeline.lane_apis import lane_apis
from stenolog.projections.requests.request import known_policy


class SentCall(NamedTuple):
    """A model call: its lane, the position of its request, and that of the answer or error; 0: it is next.

    `policy` None is the one on the agent's card. `sha256` is the receipt's, "" without one. `is_provable`:
    the receipt's request can be built here, and all its entries are still there.
    """

    lane: LaneId
    view: int
    answer: int
    api: str
    policy: Policy | None
    sha256: str
    is_provable: bool = False
    receipt: Receipt | None = None


class SentRequest(NamedTuple):
    """A call with its request; None if it cannot be built here, for the reason `why`."""

    call: SentCall
    request: Request | None
    why: str = ""


def calls(entries: Sequence[Entry]) -> Iterator[SentCall]:
    """Yield the model calls of a log, and for each lane the next one."""
    known = lanes(entries)
    gone = next((entry.position for entry in entries if is_gone(entry.event)), len(entries) + 1)
    apis = lane_apis(entries)
    usual = {lane: apis.of(lane) for lane in known}
    for entry in entries:
        match entry.event:
            case AssistantMessage() | LlmError() as event:
                lane, receipt = LaneId(event.agent, event.task), event.receipt
                if receipt is not None:
                    api = receipt.api.partition("@")[0]
                    chosen = known_policy(receipt)
                    provable = _is_built_here(receipt) and receipt.view < gone
                    yield SentCall(
                        lane, receipt.view, entry.position, api, chosen, receipt.sha256, provable, receipt
                    )
                elif isinstance(event, LlmError) or event.purpose == "answer":
                    yield SentCall(lane, entry.position - 1, entry.position, usual.get(lane, ""), None, "")
            case _:
                pass
    for lane in known:
        yield SentCall(lane, len(entries), 0, usual[lane], None, "")


def _is_built_here(receipt: Receipt) -> bool:
    name = receipt.api.partition("@")[0]
    return (
        receipt.pipeline in PIPELINES and name in FORMATS and receipt.api == f"{name}@{FORMATS[name].version}"
    )


def sent_requests(
    entries: Sequence[Entry], blobs: Mapping[str, bytes], counters: Mapping[str, Counter]
) -> Iterator[SentRequest]:
    """Yield the request of each call, lane by lane; at most one is held at a time."""
    groups: dict[tuple[LaneId, str], list[SentCall]] = defaultdict(list)
    for call in calls(entries):
        key = "" if call.policy is None else json.dumps(call.policy.json, sort_keys=True)
        groups[call.lane, key].append(call)
    for _, group in sorted(groups.items(), key=lambda one: one[0][0]):
        yield from _of_group(group, entries, blobs, counters)


def _of_group(
    group: Sequence[SentCall],
    entries: Sequence[Entry],
    blobs: Mapping[str, bytes],
    counters: Mapping[str, Counter],
) -> Iterator[SentRequest]:
    waiting: dict[int, list[SentCall]] = defaultdict(list)
    for call in group:
        waiting[call.view].append(call)
    forms, rates = SentForms(entries, group[0].lane, blobs), LaneRates(group[0].lane).extend(entries)
    lane, given, why = group[0].lane, group[0].policy, "the agent took no part yet"
    try:
        for call, series in at_views(waiting, entries, lane, given, counters, blobs, explained=True):
            if call.api not in FORMATS:
                yield SentRequest(call, None, f"API {call.api or '(unnamed)'} is not here")
                continue
            built = series.request(call.api)
            sent = built if call.receipt is None else forms.form(built, call.receipt)
            yield SentRequest(call, rates.counted(sent))
    except StenologError as error:
        why = str(error)
    for left in waiting.values():
        yield from (SentRequest(call, None, why) for call in left if call.answer)

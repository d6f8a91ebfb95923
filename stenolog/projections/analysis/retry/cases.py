"""Recorded model calls of a log, and a sample of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.lanes.triggers import response_of
from stenolog.domain.values import Receipt
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.pipeline.lane_apis import SIGNS, LaneApis, with_entry

Answer: TypeAlias = AssistantMessage | LlmError


class Case(NamedTuple):
    """A recorded model call: its conversation, lane and API, and its answer or error at `position`.

    A response that was recorded in several messages is one answer, at the position of the first.
    """

    conversation: str
    lane: LaneId
    position: int
    api: str
    answer: Answer

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of its request, if one was recorded."""
        return self.answer.receipt

    @property
    def view(self) -> int:
        """The position of its request."""
        return self.position - 1 if self.receipt is None else self.receipt.view

    @property
    def tool(self) -> str:
        """The first tool that it called; "" if none."""
        return next((call.name for call in self.answer.tool_calls), "")


def cases(entries: Iterable[Entry]) -> list[Case]:
    """Return the recorded model calls of a log, in order; those without a receipt too."""
    apis, responses = LaneApis(), dict[LaneId, str]()
    found: dict[tuple[LaneId, str], Case] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, SIGNS):
            apis = with_entry(apis, entry)
        if not isinstance(event, AssistantMessage | LlmError):
            continue
        lane = LaneId(event.agent, event.task)
        response = response_of(event) if isinstance(event, AssistantMessage) else ""
        key = lane, response or f"at {entry.position}"
        if response and responses.get(lane) == response and key in found:
            found[key] = _with_more(found[key], event)
        elif _is_call(event):
            api = event.receipt.api.partition("@")[0] if event.receipt else ""
            found[key] = Case(entry.conversation, lane, entry.position, api or apis.of(lane), event)
        responses[lane] = response
    return list(found.values())


def _is_call(event: Answer) -> bool:
    if isinstance(event, LlmError) or not event.in_context:
        return event.in_context  # else only for the timeline, such as a count of tokens
    # Without a receipt, what replaces an answer is an edit of it.
    return event.receipt is not None or (event.purpose == "answer" and event.replaces is None)


def _with_more(case: Case, event: Answer) -> Case:
    usage, parts = event.usage or case.answer.usage, (*case.answer.parts, *event.parts)
    return case._replace(answer=replace(case.answer, parts=parts, usage=usage))


def sample(cases: Sequence[Case], size: int) -> list[Case]:
    """Return so many of the calls, in their order: of each tool and length as large a part as of all.

    The length is that of the log before the call, in powers of two. The same calls give the same sample.
    """
    if size >= len(cases):
        return list(cases)
    groups: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.tool, case.view.bit_length()].append(case)
    chosen = {case[:3] for group in _shares(groups.values(), size, len(cases)) for case in group}
    return [case for case in cases if case[:3] in chosen]


def _shares(groups: Iterable[list[Case]], size: int, total: int) -> Iterator[list[Case]]:
    """Yield the sample's part of each group; a remainder goes to the groups that lack most."""
    ranked = [sorted(group, key=rank) for group in groups]
    whole = [len(group) * size // total for group in ranked]
    lacking = sorted(range(len(ranked)), key=lambda n: (-(len(ranked[n]) * size % total), rank(ranked[n][0])))
    for n in lacking[: size - sum(whole)]:
        whole[n] += 1
    yield from (group[:share] for group, share in zip(ranked, whole, strict=True))


def rank(case: Case) -> str:
    """Return a key by which calls are in an order by chance, always the same."""
    # By a digest, so that a call that is added later leaves most of the sample as it was.
    where = f"{case.conversation}\0{case.lane.address}\0{case.position}"
    return sha256(where.encode("utf-8", "surrogatepass")).hexdigest()

"""Compactions: which there are, what became of each entry, sums that agree, and one entry put back."""

from __future__ import annotations

import pytest
from hypothesis import given

from stenolog import AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.domain.values import PositionRange
from stenolog.errors import InvalidEventError, StenologError
from stenolog.parts import ProviderPart
from stenolog.projections.analysis.compaction import CompactedRequest, compacted, compactions, put_back
from stenolog.projections.requests import LaneId, build, lanes
from stenolog.testing import entries
from tests.strategies import logs

CODER = LaneId("coder")


def span(first: int, last: int) -> PositionRange:
    return PositionRange(first=first, last=last)


TALK: list[Event] = [
    UserMessage(text="Mend the parser.", to=("coder",)),
    AssistantMessage(agent="coder", text="I look.", tool_calls=[ToolCall(id="c", name="sh", arguments="{}")]),
    ToolResult(call_id="c", text="one test fails"),
    AssistantMessage(agent="coder", text="It is mended."),
    UserMessage(text="And the printer?", to=("coder",)),
]
SUMMARY = AssistantMessage(
    agent="coder", purpose="summary", text="The parser is mended.", covers=(span(1, 4),)
)
HIDE = ModeSwitch(hides=(span(2, 3),))
RESET = ModeSwitch(context_from=5)


def fates(found: CompactedRequest) -> list[tuple[int, int, str]]:
    return [(run.first, run.last, run.fate) for run in found.runs]


def sums_agree(found: CompactedRequest) -> bool:
    """Return whether the runs, with what is of no entry, are as large as the requests."""
    before = found.beside_before + sum(run.tokens_before for run in found.runs)
    after = found.beside_after + sum(run.tokens_after for run in found.runs)
    sizes = found.before.size.tokens, found.after.size.tokens
    return (before, after) == (found.tokens_before, found.tokens_after) == sizes


@pytest.mark.parametrize("by", [SUMMARY, HIDE, RESET], ids=["summary", "hidden", "reset"])
def test_a_summary_a_rewind_and_a_reset_are_compactions(by: Event) -> None:
    [one] = compactions(entries(*TALK, by), CODER)
    assert (one.position, one.kind) in ((6, "summary"), (6, "hidden"), (6, "reset"))
    assert sums_agree(compacted(entries(*TALK, by), CODER, 6))


def test_each_entry_is_kept_only_in_the_summary_or_new() -> None:
    found = compacted(entries(*TALK, SUMMARY), CODER, 6)
    assert fates(found) == [(1, 4, "only in the summary"), (5, 5, "kept"), (6, 6, "new")]


def test_what_a_rewind_hides_is_gone() -> None:
    found = compacted(entries(*TALK, HIDE), CODER, 6)
    assert fates(found) == [(1, 1, "kept"), (2, 3, "gone"), (4, 5, "kept")]


@pytest.mark.parametrize("by", [SUMMARY, HIDE, RESET], ids=["summary", "hidden", "reset"])
def test_an_entry_put_back_is_in_the_request_again_with_its_tokens(by: Event) -> None:
    found = compacted(entries(*TALK, by), CODER, 6, restore=3)
    back = found.restored
    assert back is not None
    assert back.positions == (2, 3)  # a result comes back with its call
    here = {position for part in back.request.parts for position in part.positions}
    assert {2, 3} <= here
    assert back.tokens > found.tokens_after
    assert (back.tokens, back.bytes) == (back.request.size.tokens, len(back.request.bytes))


@pytest.mark.parametrize("by", [SUMMARY, HIDE, RESET], ids=["summary", "hidden", "reset"])
def test_with_everything_put_back_the_request_is_the_one_before(by: Event) -> None:
    log = entries(*TALK, by)
    out = {run.first for run in compacted(log, CODER, 6).runs if run.fate in ("gone", "only in the summary")}
    back = build(put_back(log, range(1, 5)), "coder")
    assert out
    texts = [message["content"] for message in back.body["messages"]]
    before = [message["content"] for message in build(log[:-1], "coder").body["messages"]]
    assert [text for text in texts if "The parser is mended." not in str(text)] == before


def test_a_summary_that_a_later_one_covers_comes_back_with_what_it_stands_for() -> None:
    later = AssistantMessage(agent="coder", purpose="summary", text="All is mended.", covers=(span(1, 7),))
    log = entries(*TALK, SUMMARY, UserMessage(text="Go on.", to=("coder",)), later)
    back = compacted(log, CODER, 8, restore=6).restored
    assert back is not None
    assert "The parser is mended." in str(back.request.body)
    assert "Mend the parser." not in str(back.request.body)


def test_a_summary_that_only_its_provider_reads_is_told_so() -> None:
    secret = ProviderPart(
        provider="openai", model="gpt-5.2", raw='{"type":"compaction","encrypted_content":"x"}'
    )
    summary = AssistantMessage(agent="coder", purpose="summary", parts=[secret], covers=(span(1, 4),))
    [one] = compactions(entries(*TALK, summary), CODER)
    assert not one.is_readable
    assert fates(compacted(entries(*TALK, summary), CODER, 6))[0] == (1, 4, "only in the summary")


def test_an_entry_that_was_not_taken_out_cannot_be_put_back() -> None:
    with pytest.raises(InvalidEventError, match="that the compaction took out, found 5"):
        compacted(entries(*TALK, HIDE), CODER, 6, restore=5)
    with pytest.raises(InvalidEventError, match="a compaction of coder at 5, found none"):
        compacted(entries(*TALK, HIDE), CODER, 5)


@given(logs())
def test_the_sums_agree_for_every_compaction_of_any_log(log: list[Entry]) -> None:
    for lane in lanes(log):
        for one in compactions(log, lane):
            if one.position > 1:
                try:
                    found = compacted(log, lane, one.position)
                except StenologError:  # no request can be built of what a later release wrote
                    continue
                pictures = found.before.size.tokens - found.tokens_before
                assert found.beside_before >= 0
                assert found.beside_after >= 0
                assert pictures >= 0

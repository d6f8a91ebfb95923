"""The tokens of a Codex rollout add up to Codex's own total, whatever it wrote how often."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage
from stenolog.events import Usage
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import Import, Json, message, meta, screen


def counted(total: int, last: int) -> Json:
    """Return a record that counts the tokens of the session, and of its last response."""
    sums = {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last}}
    return screen("token_count", info=sums)


BEGUN = (meta(), message("user", "a"), message("assistant", "b"), counted(1_000, 1_000))
SAID = message("user", "c"), message("assistant", "d")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((counted(1_000, 1_000), *SAID, counted(2_100, 1_100)), [1_000, 1_100]),
        ((SAID[0], counted(1_000, 1_000), SAID[1], counted(1_000, 1_000), counted(2_100, 1_100)), None),
        ((SAID[0], counted(1_500, 500), SAID[1], counted(2_600, 1_100)), [1_000, 1_600]),
        ((*SAID, counted(700, 700)), [1_000, 700]),
    ],
    ids=["again before", "again during", "a request that is not written", "a total begun anew"],
)
def test_a_count_with_unchanged_totals_counts_once(
    into: Import, records: tuple[Any, ...], expected: list[int] | None
) -> None:
    into.records(*BEGUN, *records)

    assert tokens(into) == (expected or [1_000, 1_100])


def test_what_a_session_used_before_it_was_taken_up_again_is_not_counted(into: Import) -> None:
    into.records(meta(), *SAID, counted(9_000, 1_000), *SAID, counted(10_500, 1_500))

    assert tokens(into) == [1_000, 1_500]


def tokens(into: Import) -> list[int]:
    return [said.usage.input for said in into.said if isinstance(said, AssistantMessage) and said.usage]


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_the_tokens_of_every_recorded_rollout_are_codexs_own_total() -> None:
    compared = 0
    for file in files("codex"):
        records = map(json.loads, file.read_text().splitlines())
        infos = (record["payload"].get("info") for record in records if record["type"] == "event_msg")
        totals = [total for info in infos if info and (total := info.get("total_token_usage"))]
        used = [usage for talk in conversations(file) for usage in map(_usage, talk.entries) if usage]
        ours = sum(one.input for one in used), sum(one.output for one in used)
        assert ours == (totals[-1]["input_tokens"], totals[-1]["output_tokens"]), file.name
        compared += len(totals)
    assert compared


def _usage(entry: Any) -> Usage | None:
    return getattr(entry.event, "usage", None)

"""Instructions and tokens in rollouts of Codex."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Request
from stenolog.events import Usage
from stenolog.requests import build
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import Import, Json, codex, message, meta, screen

RULES = "Keep the tests green."
REPEATED = message("user", f"<user_instructions>\n\n{RULES}\n\n</user_instructions>")


def request(into: Import) -> Request:
    return build(into.entries, "codex", api="openai-responses")


@pytest.mark.parametrize(
    "told", [{"base_instructions": {"text": RULES}}, {"base_instructions": RULES}, {"instructions": RULES}]
)
def test_the_instructions_of_a_session_are_those_of_its_requests(into: Import, told: dict[str, Any]) -> None:
    into.records(
        meta(**told), message("user", "Hi"), message("assistant", "Hello."), message("user", "Go on")
    )

    assert request(into).body["instructions"] == RULES
    assert len(into.settings) == 1


def test_an_answer_before_any_words_has_them_too(into: Import) -> None:
    into.records(meta(instructions=RULES), message("assistant", "Hello."), message("user", "Hi"))

    assert request(into).body["instructions"] == RULES


def test_instructions_that_a_message_repeats_are_shown_once(into: Import) -> None:
    turn = codex("turn_context", user_instructions=RULES, developer_instructions="Be brief.")
    into.records(meta(instructions=RULES), REPEATED, turn, message("user", "Hi"))

    assert str(request(into).body).count(RULES) == 1
    assert "instructions" not in request(into).body


def test_base_instructions_stand_beside_those_of_the_user(into: Import) -> None:
    into.records(
        meta(base_instructions="You are Codex.", instructions=RULES), REPEATED, message("user", "Hi")
    )

    assert request(into).body["instructions"] == "You are Codex."
    assert str(request(into).body).count(RULES) == 1


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_every_recorded_rollout_has_its_base_instructions_in_its_request() -> None:
    found = 0
    for file in files("codex"):
        base = _base_instructions(file)
        for talk in conversations(file):
            body = build(talk.entries, "codex", api="openai-responses", blobs=talk.blobs).body
            assert body.get("instructions", "").strip() == base.strip(), file.name
            found += bool(base)
    assert found


def _base_instructions(file: Path) -> str:
    records = map(json.loads, file.read_text().splitlines())
    first = next(record["payload"] for record in records if record["type"] == "session_meta")
    return str(first["base_instructions"]["text"])


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

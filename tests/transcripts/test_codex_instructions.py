"""The instructions of a Codex rollout stand in its requests, once, where the file has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import Request
from stenolog.requests import build
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.transcripts.given import Import, codex, message, meta

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

"""Words that are erased are gone from the receipts of recorded requests, too."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog import UserMessage
from tests.file_bytes import files_with
from tests.recording.given import Tap, anthropic, assistant, compact, outcomes, said, user

SECRET = "My number is 555-0123-4567, and nobody must know it, not even the other bakers in the village."


@pytest.mark.parametrize("form", ["plain", "raw", "in an odd form", "short"])
def test_erased_words_are_in_no_file_and_the_requests_with_them_cannot_be_proved(
    tmp_path: Path, form: str
) -> None:
    words = "555-0123" if form == "short" else SECRET
    with stenolog.open(tmp_path / "talks.db") as log:
        tap = Tap(log)
        first = anthropic({"role": "user", "content": words} if form == "short" else user(words))
        tap.send(first, said("Noted."))
        again = anthropic(*first["messages"], assistant("Noted."), user("Go on."))
        if form == "in an odd form":
            again["note"] = f"<copy>{words}</copy> of what was said before, which no part of ours can give"
        content = compact(again)
        tap.send(content.replace(b'"stream":true', b'"stream":true ') if form == "raw" else content)
        assert outcomes(tap.proofs()) == {"same"}
        (position,) = [
            e.position for e in tap.entries() if isinstance(e.event, UserMessage) and e.event.text == words
        ]
        erased = tap.conversation.erase(position, reason="asked for")
        kept = [] if form == "in an odd form" else tap.proofs()

        assert erased.is_complete
        assert {proof.outcome for proof in kept} <= {"not-provable"}
    assert files_with(tmp_path, words[:60].encode()) == []

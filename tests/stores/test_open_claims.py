"""The effects that runners are at, listed and taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.values import Claim
from stenolog.errors import ConversationNotFoundError


def test_claims_are_those_of_the_log_or_of_one_conversation_that_there_is(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        for name in ("one", "two"):
            log[name].append(UserMessage("Go on"))
            Claims(log.recorder, log[name].stream).take([Claim(0, "a", "model", 2, 1, "key", "me", 0)], 2)

        assert [each.conversation for each in log.claims()] == ["one", "two"]
        assert [each.conversation for each in log.claims("two")] == ["two"]
        for missing in (log.claims, log.take_claims):
            with pytest.raises(ConversationNotFoundError):
                missing("three")

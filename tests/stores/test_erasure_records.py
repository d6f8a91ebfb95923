"""Records of erasures in the history that an expert wrote by SQL."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import stenolog
from stenolog import Log, ModeSwitch, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.domain.history import ERASED, SALT_BYTES, Newest, following


def recorded(log: Log, position: int, left: str = "") -> None:
    """Append a record of an erasure to the history by SQL, as an expert would."""
    with log.datastore.writing() as connection:
        query = "SELECT number, digest FROM history ORDER BY number DESC LIMIT 1"
        newest = Newest(*connection.execute(query).fetchone())
        salt = b"s" * SALT_BYTES if left else b""
        record = following(newest, 1, ERASED, value=position, salt=salt, name=left)
        connection.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", record)


def test_a_record_of_an_erasure_before_its_entry_is_a_fault(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a"))
        recorded(log, log["demo"].position + 1)

        (problem,) = verify(log).problems
        assert (problem.code, problem.expected, problem.found) == ("erased", "an erased entry", "no entry")


def test_a_second_record_does_not_vouch_for_other_effects_of_an_erased_switch(path: Path) -> None:
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a"))
        log["demo"].append(ModeSwitch(mode="careful"), expected=log["demo"].position)
        log["demo"].erase(3)
        with log.datastore.writing() as connection:
            query = "SELECT state FROM stored_events WHERE originator_version = 3"
            other = connection.execute(query).fetchone()[0].replace(b"careful", b"careless")
            connection.execute("UPDATE stored_events SET state = ? WHERE originator_version = 3", (other,))
        recorded(log, 3, sha256(other).hexdigest())

        assert {problem.code for problem in verify(log).problems} == {"history", "erased"}

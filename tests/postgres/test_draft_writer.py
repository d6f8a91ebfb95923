"""Drafts of many answers, stored together: none is lost, none is stored twice, each in its order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.conversation.log import extend
from stenolog.adapters.store.contract.values import Claim
from stenolog.adapters.store.postgres.connection.datastore import LogConnection
from stenolog.adapters.store.postgres.recorder import PostgresLogRecorder
from stenolog.adapters.store.postgres.statements import claim_rows
from tests.postgres.server import Server

ANSWERS = 12
PIECES = 20


def answer(log: Log, name: str) -> int:
    """Take the claim on an answer in a new conversation; return its fence."""
    log[name].append(UserMessage(text="Hi"))
    (held,) = log.recorder.claims.take(log[name].stream, [Claim(0, "a", "model", 2, 1, "k", "o", 0)], 2)
    assert held is not None
    return held.fence


def test_pieces_that_come_at_the_same_time_are_all_stored_in_order(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address, stenolog.open(address) as log:
        assert isinstance(log.recorder, PostgresLogRecorder)
        writes: list[int] = []
        repeat = log.recorder.datastore.repeat

        def counted(work: Callable[[LogConnection, bool], None]) -> None:
            writes.append(threading.get_ident())
            time.sleep(0.01)  # a server that takes its time: the others ask meanwhile
            repeat(work)

        fences = [answer(log, str(number)) for number in range(ANSWERS)]
        log.recorder.datastore.repeat = counted  # type: ignore[method-assign, assignment]

        def say(fence: int) -> None:
            for number in range(PIECES):
                log.recorder.drafts.add([(fence, b"%d" % number)])

        with ThreadPoolExecutor(ANSWERS) as threads:
            list(threads.map(say, fences))
        log.recorder.datastore.repeat = repeat  # type: ignore[method-assign]
        found = [log.recorder.drafts.of(fence) for fence in fences]

    assert found == [[b"%d" % number for number in range(PIECES)]] * ANSWERS
    assert len(writes) < ANSWERS * PIECES / 2


def test_what_keeps_drafts_from_being_stored_is_told_to_each_who_waits(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address:
        log = stenolog.open(address)
        fence = answer(log, "demo")
        log.close()
        with ThreadPoolExecutor(4) as threads:
            told = [threads.submit(log.recorder.drafts.add, [(fence, b"1")]) for _ in range(4)]

        assert [type(each.exception()).__name__ for each in told] == ["StoreError"] * 4


def test_a_write_whose_answer_was_lost_is_not_made_again_where_its_first_answer_has_ended(
    postgres: Callable[[str], Server],
) -> None:
    with postgres("postgres 18").schema() as address, stenolog.open(address) as log:
        assert isinstance(log.recorder, PostgresLogRecorder)
        first, second = answer(log, "one"), answer(log, "two")
        stored: list[tuple[int, int]] = []
        said = [(first, b"1"), (second, b"2")]
        write = log.recorder.datastore.repeat
        write(lambda c, again: claim_rows.add_drafts(c, said, stored, again=again))
        extend(log["one"], [UserMessage(text="settles it")], None, first)
        write(lambda c, again: claim_rows.add_drafts(c, said, stored, again=True))

        assert log.recorder.drafts.of(second) == [b"2"]

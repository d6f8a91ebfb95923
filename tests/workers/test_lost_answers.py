"""Connections that are cut while something is submitted: a message and its wake-up are there once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

import stenolog
from stenolog import UserMessage
from stenolog.errors import OperationalError
from stenolog.workers import submit_sync
from tests.postgres.cutting_proxy import cutting
from tests.postgres.server import Server
from tests.workers.given import jobs, schema_of

MESSAGES = 40
CUTS = 30


@pytest.mark.slow
def test_a_message_and_its_wake_up_are_there_once_though_answers_are_lost(
    postgres: Callable[[str], Server], server_log: str
) -> None:
    server = postgres("postgres 15")
    with stenolog.open(server_log) as log:
        submit_sync(log["demo"], "The first.", id="m-0")
    with cutting(server.folder, CUTS) as proxy:
        through = server._replace(folder=proxy.folder).address(schema=schema_of(server_log))
        for number in range(1, MESSAGES):
            submitted(through, number)
        assert proxy.cuts >= CUTS // 2
    with stenolog.open(server_log) as log:
        messages = [entry.id for entry in log["demo"] if isinstance(entry.event, UserMessage)]

    assert messages == [f"m-{number}" for number in range(MESSAGES)]
    assert len(jobs(server, server_log)) == MESSAGES


def submitted(address: str, number: int) -> None:
    """Submit a message, however often it takes."""
    while True:
        with suppress(OperationalError), stenolog.open(address) as log:
            submit_sync(log["demo"], f"Message {number}", id=f"m-{number}")
            return

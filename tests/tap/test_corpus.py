"""The corpus: it is the same each time, and the recorder has every request of it, each in its conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import stenolog
from stenolog.adapters.recorder.exchange import Exchange
from stenolog.adapters.recorder.recording import Recording
from tests.tap.corpus import Verdict, judged, performed, recorded
from tests.tap.fake_provider import Provider
from tests.tap.plays import Play, plays
from tests.tap.raw_client import Sent


def perform(what: list[Play], database: Path) -> tuple[list[Sent], Verdict]:
    """Perform sessions against a provider, record what passes, and judge the log."""
    with stenolog.open(database) as log, Provider() as provider:
        recording = Recording(log)

        def observe(exchange: Exchange, has_ended: bool) -> None:
            if has_ended:
                recording.answer(exchange)
            else:
                recording.request(exchange)

        urls = {"anthropic": provider.url, "openai": provider.url + "/v1", "gemini": provider.url}
        sent = asyncio.run(performed(what, urls, observe))
        return sent, judged(sent, recorded(log))


def test_small(tmp_path: Path) -> None:
    import os

    n = int(os.environ.get("N", "300"))
    sent, verdict = perform(plays(1, n), tmp_path / "log.db")
    print(verdict.requests, verdict)
    print("\n".join(verdict.wrong[:60]))

"""The corpus: the same each time, recorded whole, and judged so that nothing wrong passes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stenolog
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.recording.transcriber import Transcriber
from tests.tap.corpus import Recorded, Unique, altered, judged, performed, recorded
from tests.tap.fake_provider import Provider
from tests.tap.plays import Play, plays
from tests.tap.raw_client import Sent
from tests.tap.running_tap import running_tap
from tests.tap.sdk_clients import run_sdks

SEED = 7
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def perform(what: list[Play], database: Path) -> tuple[list[Sent], list[Recorded]]:
    """Perform sessions against a provider, record what passes, and build it again from the log."""
    with stenolog.open(database) as log, Provider() as provider:
        recording = Transcriber(log)

        def observe(exchange: RecordedExchange, has_ended: bool) -> None:
            if has_ended:
                recording.answer(exchange)
            else:
                recording.request(exchange)

        urls = {"anthropic": provider.url, "openai": provider.url + "/v1", "gemini": provider.url}
        return asyncio.run(performed(what, urls, observe)), recorded(log)


def chosen(*names: str) -> list[Play]:
    """Return a short session without ids of each program."""
    found = {play.profile.name: play for play in plays(SEED, 3000) if play.requests == 4 and not play.has_ids}
    return [replace(found[name], feature="plain") for name in names]


def test_a_corpus_has_the_same_requests_and_answers_each_time(tmp_path: Path) -> None:
    runs = [perform(chosen("hermes", "genai"), tmp_path / name)[0] for name in ("one.db", "two.db")]

    one, two = (sorted((sent.body_sha256, sent.answer_sha256) for sent in run) for run in runs)
    assert one == two


@pytest.mark.slow
def test_every_request_is_in_the_log_as_it_was_sent_and_none_in_another_session(tmp_path: Path) -> None:
    names = ("claude", "codex", "hermes", "go", "gemini", "genai", "stored", "script")
    verdict = judged(*perform(chosen(*names), tmp_path / "log.db"))

    assert verdict.requests >= 30
    assert (verdict.missing, verdict.differs, verdict.merged, verdict.split) == (0, 0, 0, 0), verdict.wrong
    assert verdict.derived("claude", "codex") == 1


def test_a_request_in_another_sessions_conversation_is_a_merge(tmp_path: Path) -> None:
    sent, found = perform(chosen("hermes", "go"), tmp_path / "log.db")
    sessions = [*dict.fromkeys(one.label.session for one in sent)]
    home = {one.label.session: one for one in sent}
    conversation = {record.sent_sha256: record.conversation for record in found}
    other = conversation[home[sessions[0]].body_sha256]
    moved = home[sessions[1]].body_sha256
    found = [one._replace(conversation=other) if one.sent_sha256 == moved else one for one in found]

    verdict = judged(sent, found)

    assert (verdict.missing, verdict.merged, verdict.split) == (0, 1, 0)


def test_a_request_that_is_alone_is_split_and_one_that_is_nowhere_is_missing(tmp_path: Path) -> None:
    sent, found = perform(chosen("hermes"), tmp_path / "log.db")
    found = [found[0]._replace(conversation="elsewhere"), *found[1:-1]]

    verdict = judged(sent, found)

    assert (verdict.missing, verdict.merged, verdict.split) == (1, 0, 1)


@pytest.mark.slow
def test_bytes_are_the_same_at_both_ends_of_a_tap_and_a_single_other_one_is_found(tmp_path: Path) -> None:
    with running_tap(tmp_path) as running:
        sent = asyncio.run(performed(chosen("claude", "codex", "gemini", "go"), running.urls))
        sent += run_sdks(running.urls, SEED, 40)

    assert altered(sent, running.exchanges) == []
    first = running.exchanges[0]
    for name in ("body_sha256", "answer_sha256", "chunks_sha256", "headers"):
        wrong = [{**first, name: [] if name == "headers" else "0" * 64}, *running.exchanges[1:]]
        assert altered(sent, wrong)
    complete = sum(one.complete for one in sent)
    assert complete == len(sent)
    with stenolog.open(running.database) as log:
        verdict = judged(sent, recorded(log))
    assert (verdict.missing, verdict.differs, verdict.merged) == (0, 0, 0), verdict.wrong


def test_unique_content_counts_each_part_once_and_no_mark_of_the_cache() -> None:
    counted = Unique()
    bodies = (
        b'{"system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":"hi"}]}',
        b'{"system":[{"type":"text","text":"be brief","cache_control":{}}],"messages":[]}',
    )
    for body in bodies:
        counted.observe(RecordedExchange("", NOW, "POST", "", "", content=body), False)

    assert counted.bytes == len('{"text":"be brief","type":"text"}') + len('{"content":"hi","role":"user"}')
    assert counted.raw == sum(map(len, bodies))

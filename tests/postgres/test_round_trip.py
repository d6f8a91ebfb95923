"""From a file to PostgreSQL and home again: the same heads, and the same bytes of every request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.reading.reader import imported_spans
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.errors import StenologError, UnknownFormatError
from stenolog.events import UserMessage
from stenolog.importers import import_file
from stenolog.plugins import FORMATS
from tests.postgres.server import EACH_VERSION, Server
from tests.requests.corpus import BUNDLED, TRANSCRIPTS

REAL = ("claude_code/ec-38b74f08e3-3.jsonl", "codex/rollout-e598363d10f4.jsonl")


@pytest.fixture(params=EACH_VERSION)
def address(request: pytest.FixtureRequest, postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres(request.param).schema() as found:
        yield found


def written(path: Path) -> None:
    """Write a log with all that a log can have: the demo, examples, real sessions, whatever became of it."""
    with stenolog.open(path) as log:
        record_all(log)
        for file in (*BUNDLED, *(TRANSCRIPTS / name for name in REAL if TRANSCRIPTS.is_dir())):
            with suppress(UnknownFormatError):  # some of the examples are scripts of models
                import_file(log, file)
        log["demo~1"].archive()
        log["secret"].extend([UserMessage(text="a secret"), UserMessage(text="and more")])
        log["secret"].erase(2, reason="it is one")
        log["renamed"].append(UserMessage(text="a"))
        log["renamed"].rename("late")
        log["gone"].append(UserMessage(text="nobody asked"))
        log["gone"].delete()
        log.blobs.put(b"of no entry")


def facts(log: stenolog.Log) -> dict[str, object]:
    """Return what must be the same wherever a log is."""
    names = log.names(archived=True)
    return {
        "names": names,
        "archived": sorted({*names} - {*log.names()}),
        "heads": {name: (log[name].position, log[name].digest) for name in names},
        "records": {name: list(log[name].records()) for name in names},
        "imported": {name: imported_spans(log.recorder, log[name].stream) for name in names},
        "forks": {name: [one.after for one in log.recorder.lineage(log[name].stream)] for name in names},
        "blobs": sorted((sha, log.blobs[sha]) for sha in log.blobs),
    }


def requests(log: stenolog.Log) -> dict[tuple[str, str, int, str], str]:
    """Return a hash of the bytes of each request: of every agent, at its answers and at the end."""
    found = {}
    for name in log.names(archived=True):
        conversation = log[name]
        for agent in conversation.state().lanes:
            answers = [e.position for e in conversation.entries() if getattr(e.event, "agent", "") == agent]
            for at in (*answers[-3:], conversation.position):
                for api in FORMATS:
                    try:
                        told = conversation.request(agent, at=at, api=api).sha256
                    except StenologError as error:
                        told = str(error)
                    found[name, agent, at, api] = told
    return found


def test_home_again_a_log_has_the_same_heads_and_requests(address: str, tmp_path: Path) -> None:
    there, home = tmp_path / "there.db", tmp_path / "home.db"
    written(there)
    with stenolog.open(there) as log:
        before, sent = facts(log), requests(log)
    with stenolog.open(address) as log:
        import_file(log, there)
        on_the_server = facts(log), requests(log)
        report = verify(log)
        log.backup(home)
    with stenolog.open(home) as log:
        after, sent_after, checked = facts(log), requests(log), verify(log, head=report.head)

    assert on_the_server == (before, sent)
    assert (after, sent_after) == (before, sent)
    assert (report.problems, checked.problems) == ((), ())
    assert checked.head == report.head
    assert len(before["heads"]) > 5  # type: ignore[arg-type]
    assert len(set(sent.values())) > 100

"""Erased words: not one copy of them stays in any file, and an erasure is done or not, never half."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    Event,
    Log,
    ModeSwitch,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.adapters.store.sidecar import erasures
from stenolog.context import LastN
from stenolog.errors import InvalidEventError
from stenolog.parts import ImagePart
from stenolog.projections.requests.builder import build_reference
from stenolog.tables import Table, attach_table
from tests.file_bytes import words_in
from tests.forked import python

WORDS = [f"zebra{number:02}quagga" for number in range(50)]
KILLS = 100
FEW_KILLS = 8
SAID = Table("said", columns={"text": str}, rows=lambda entry: [{"text": getattr(entry.event, "text", "")}])


def planted(word: str, number: int, log: Log) -> Event:
    """Return an event that has the word in it, in one of its places."""
    match number % 5:
        case 0:
            return UserMessage(text=f"My name is {word}.", to=["a"])
        case 1:
            return ToolResult(call_id="none", text=f"{word} " * 2_000)
        case 2:
            return UserMessage(parts=[ImagePart(blob=log.blobs.put(f"a picture of {word}".encode() * 99))])
        case 3:
            return AssistantMessage(agent="b", text=f"Hello, {word}!")
        case _:
            return UserMessage(text="x" * 3_000 + word, meta={"app": {"note": word}}, to=["a"])


def filled(log: Log) -> list[tuple[str, int]]:
    """Fill a log with planted words, answers with receipts, forks, tables; return the words' places."""
    attach_table(log, SAID)
    places: list[tuple[str, int]] = []
    for name in ("one", "two"):
        conversation = log[name]
        conversation.append(ModeSwitch(cards={"a": AgentCard(model="m"), "b": AgentCard(model="m")}))
        conversation.append(UserMessage(text="Hello.", to=["a"]))
        answered(conversation)
        for number, word in enumerate(WORDS):
            if number % 2 == (name == "two"):
                entry = conversation.append(planted(word, number, log))
                places.append((name, entry.position))
                answered(conversation)
        conversation.fork(after=conversation.position // 2).append(UserMessage(text="In the fork."))
        conversation.fork(name=f"fork of {name}")
        conversation.state()
    for number in range(300):
        log["many"].append(UserMessage(text=f"entry {number}"))
    return places


def answered(conversation: Conversation) -> None:
    receipt = conversation.request("a").receipt
    conversation.append(AssistantMessage(agent="a", text="Fine.", receipt=receipt))


def files_with(folder: Path, words: Iterable[str]) -> list[str]:
    """Return the files in which one of the words stands, in the bytes or in what is compressed."""
    return [
        f"{word} in {path.name}"
        for path in sorted(folder.iterdir())
        for content in (words_in(path),)
        for word in words
        if word.encode() in content
    ]


def test_words_that_another_process_erases_are_not_stored_by_one_that_has_read_them(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    erase = "import sys, stenolog; stenolog.open(sys.argv[1])['talk'].erase(1)"
    with stenolog.open(path) as log:
        for _ in range(40):
            log["talk"].extend([UserMessage(text=f"My name is {WORDS[0]}."), AssistantMessage(agent="a")])
        log["talk"].request("a")
        subprocess.run(python("-c", erase, str(path)), check=True)
    # The windows of requests are stored when the log is closed.
    with stenolog.open(path) as log:
        assert log.checkpoints.names(log["talk"].key or 0) == []


def test_fifty_words_are_in_no_file_any_more_and_all_else_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        places = filled(log)
        assert log.search("zebra00quagga")
        heads = {name: log[name].digest for name in log.names()}
        kept = {name: log[name].position for name in log.names()}
        same_before = {proof[:3] for one in prove(log) for proof in one.proofs if proof.outcome == "same"}
        assert len(files_with(tmp_path, WORDS)) >= 50
        for name in ("one", "two"):
            done = log[name].erase(
                *(at for where, at in places if where == name), reason="on request", by="privacy office"
            )
            assert done.is_complete
        assert files_with(tmp_path, WORDS) == [], "while the log is open"

        report = verify(log)
        assert report.problems == ()
        assert {name: log[name].entry(kept[name]).digest for name in kept} == heads
        proofs = {proof[:3]: proof for one in prove(log) for proof in one.proofs}
        assert set(proofs) == same_before
        first = min(at for _, at in places)
        for proof in proofs.values():
            if proof.view < first:
                assert proof.outcome == "same"
            elif proof.outcome != "same":
                assert proof.outcome == "not-provable"
                assert "was erased by privacy office on 20" in proof.reason
                assert proof.reason.endswith(", on request")
        assert sum(proof.outcome == "not-provable" for proof in proofs.values()) > 20
        assert log.search("zebra00quagga") == []
        rows = attach_table(log, SAID).select("SELECT text FROM said")
        assert len(rows) > 300
        assert "quagga" not in str(rows)
        shown = log["fork of one"].timeline()
        assert {item.kind for item in shown if ("one", item.position) in places} == {"erased"}
        for name in ("one", "two", "fork of one", "fork of two", "one~1", "two~1"):
            assert "privacy office" in {item.author for item in log[name].timeline()}
    assert files_with(tmp_path, WORDS) == []
    with stenolog.open(path) as log:
        assert log.search("quagga*") == []
        assert verify(log).ok
    assert files_with(tmp_path, WORDS) == []


def test_a_blob_that_another_entry_names_stays(log: Log) -> None:
    shared, alone = log.blobs.put(b"shared"), log.blobs.put(b"alone")
    conversation = log["demo"]
    secret = conversation.append(UserMessage(parts=[ImagePart(blob=shared), ImagePart(blob=alone)]))
    log["other"].append(UserMessage(parts=[ImagePart(blob=shared)]))
    conversation.erase(secret.position)
    assert dict(log.blobs) == {shared: b"shared"}


def test_the_record_of_an_erasure_is_not_erased_and_no_agent_is_asked_by_it(log: Log) -> None:
    conversation = log["demo"]
    conversation.append(ModeSwitch(joins=["a"]), expected=0)
    conversation.append(UserMessage(text="secret", author_kind="system"))
    recorded_at = conversation.erase(2, by="", reason="").recorded_at
    assert conversation.state().lane("a").status == "idle"
    with pytest.raises(InvalidEventError, match="a record of an erasure cannot be erased"):
        conversation.erase(recorded_at["demo"])


def test_what_a_reader_keeps_in_the_way_goes_when_the_log_is_opened_next(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a zebra"))
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM stored_events").fetchone()
            assert not log["demo"].erase(2).is_complete
            assert files_with(tmp_path, ["zebra"]) != []
            assert "zebra" not in str([entry.event for entry in log["demo"].entries()])
        with stenolog.open(path) as other:
            assert files_with(tmp_path, ["zebra"]) == []
            assert other["demo"].erase(2).is_complete


def test_who_erases_forgets_the_words_though_another_process_has_ended_the_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = erasures.finish

    def ended_elsewhere(log: Log) -> bool:
        monkeypatch.setattr(erasures, "finish", finish)
        stenolog.open(log.path).close()  # whoever opens it now ends the erasure
        return finish(log)

    with stenolog.open(tmp_path / "log.db") as log:
        demo = log["demo"]
        demo.append(ModeSwitch(joins=["a"], cards={"a": AgentCard(model="m", policy=LastN(2))}))
        demo.extend([UserMessage(text="a secret"), UserMessage(text="two"), UserMessage(text="three")])
        demo.request("a")
        monkeypatch.setattr(erasures, "finish", ended_elsewhere)
        demo.erase(2)

        here = demo.request("a")

    assert here == build_reference(demo_of(tmp_path), "a")


def demo_of(folder: Path) -> list[Entry]:
    """Return the entries as a new process reads them."""
    with stenolog.open(folder / "log.db") as log:
        return list(log["demo"].entries())


KILLED = """
import os, signal, sys, sqlite3, threading, time
import stenolog
from stenolog.adapters.store.sidecar import erasures

path, after = sys.argv[1], float(sys.argv[2])
with stenolog.open(path) as log:
    print("open", flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: (time.sleep(after), os.kill(os.getpid(), signal.SIGKILL))).start()
    log["demo"].erase(2, 3, reason="on request", by="boss")
    print("done", flush=True)
"""


def killed_often(folder: Path, times: int) -> list[str]:
    """Kill erasures at instants that move towards the middle of one, on however busy a machine."""
    latest, outcomes = 0.03, list[str]()
    for seed in range(times):
        after = random.Random(seed).uniform(0.0, latest)
        outcomes.append(kill_in_the_middle(folder / str(seed), after))
        latest *= 1.5 if outcomes[-1] == "not done" else 0.7
    return outcomes


def kill_in_the_middle(folder: Path, after: float) -> str:
    """Erase two entries in a process that is killed meanwhile; check the log, return whether it is done."""
    folder.mkdir()
    path = folder / "talks.db"
    with stenolog.open(path) as log:
        demo = log["demo"]
        demo.append(UserMessage(text="the first zebra", to=["a"]))
        demo.append(UserMessage(parts=[ImagePart(blob=log.blobs.put(b"a second zebra" * 999))]))
        demo.append(AssistantMessage(agent="a", text="Done."))
        demo.fork()
        demo.extend([UserMessage(text=f"entry {number}") for number in range(200)])
        demo.state()
        log.search("zebra")
        heads = {name: (log[name].position, log[name].digest) for name in log.names()}
    with subprocess.Popen(
        python("-c", KILLED, str(path), str(after)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        process.wait(60)
    assert process.returncode == -signal.SIGKILL
    with stenolog.open(path) as log:
        report = verify(log)
        assert report.problems == ()
        for name, (position, digest) in heads.items():
            assert log[name].entry(position).digest == digest
        erased = [item.position for item in log["demo"].timeline() if item.kind == "erased"]
        records = [name for name in log.names() if "boss" in {item.author for item in log[name].timeline()}]
        if not erased:
            assert records == []
            assert "zebra" in str([entry.event for entry in log["demo"].entries(at=2)])
            assert len(log.blobs) == 1
            return "not done"
        assert (erased, records) == ([2, 3], ["demo", "demo~1"])
        assert len(log.blobs) == 0
        assert files_with(folder, ["zebra"]) == []
        return "done"


def test_an_erasure_that_is_killed_is_done_or_not(tmp_path: Path) -> None:
    assert set(killed_often(tmp_path, FEW_KILLS)) <= {"done", "not done"}


@pytest.mark.slow
def test_a_hundred_erasures_that_are_killed_are_done_or_not(tmp_path: Path) -> None:
    assert set(killed_often(tmp_path, KILLS)) == {"done", "not done"}


def test_a_request_that_is_built_on_from_memory_has_no_word_that_another_process_erased(
    tmp_path: Path,
) -> None:
    db = tmp_path / "talks.db"
    with stenolog.open(db) as log:
        talk = log["demo"]
        talk.join("a", model="gpt-5.2")
        talk.append(UserMessage(WORDS[0], to=["a"]))
        assert WORDS[0] in str(talk.request("a").body)
        with stenolog.open(db) as other:
            other["demo"].erase(2)
        talk.append(UserMessage("And now?", to=["a"]))
        assert WORDS[0] not in str(talk.request("a").body)

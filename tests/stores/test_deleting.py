"""What is deleted is gone: from every file of the log, with the blobs that nothing else names."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import AgentCard, AssistantMessage, Log, ModeSwitch, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.blobs import SHA, shas_in
from stenolog.adapters.store.contract.values import Claim, Collected
from stenolog.adapters.store.sqlite import blob_store
from stenolog.domain.history import ERASED, SALT_BYTES, Newest, following
from stenolog.errors import BlobNotFoundError
from stenolog.events import dump_event
from stenolog.parts import ImagePart
from tests.file_bytes import words_in
from tests.stores import workers

WORD = "canaryword"
pytestmark = pytest.mark.skipif(not blob_store.PINS_SUPPORTED, reason="blobs are collected on Linux alone")


def holding(path: Path) -> set[str]:
    """Return the files of the log in which the word stands, in whatever case."""
    files = (each for each in path.parent.iterdir() if each.is_file())
    return {each.name.removeprefix(path.name) for each in files if WORD.encode() in words_in(each).lower()}


def victim(log: Log, seed: int = 0) -> str:
    """Return a conversation with the word in entries, blob, draft, receipt and all sidecars; its blob."""
    chance = Random(seed)
    conversation, other = log[f"{WORD}-{seed}"], log["other"]
    conversation.append(
        ModeSwitch(cards={"a": AgentCard(persona=f"{WORD} persona")}, title=WORD),
        expected=conversation.position,
    )
    for number in range(80):
        said = f"{WORD} {number} " + "x" * chance.randrange(3_000)
        conversation.extend([UserMessage(text=said), AssistantMessage(agent="a", text=f"{WORD} {number}")])
        if chance.random() < 0.5:
            other.append(UserMessage(text="hay " * chance.randrange(200)))
    blob = log.blobs.put(f"{WORD} ".encode() * 5_000)
    conversation.append(ToolResult(call_id="c", text="preview", blob=blob))
    claims = Claims(log.recorder, conversation.stream)
    wanted = [
        Claim(
            0, "a", f"tool {conversation.position}", conversation.position, 1, "k", "nobody", 0, WORD.encode()
        )
    ]
    (claim,) = claims.take(wanted, conversation.position)
    assert claim is not None
    claims.draft([(claim.fence, f'[["text", "{WORD}"]]'.encode())])
    conversation.request("a")
    conversation.settings()
    log.search(WORD)
    return blob


@pytest.mark.parametrize("seed", range(4))
def test_of_a_deleted_conversation_no_word_stays_in_any_file_of_an_open_log(seed: int, path: Path) -> None:
    with stenolog.open(path) as log:
        victim(log, seed)
    with stenolog.open(path) as log:
        blob = victim(log, seed)
        assert holding(path) >= {"", "-wal", "-checkpoints", "-search"}
        log[f"{WORD}-{seed}"].delete()

        assert holding(path) == set()
        assert blob not in log.blobs
        assert verify(log).ok
        log["other"].append(UserMessage(text="more"))
        assert log.search("hay")
        assert log.search(WORD) == []
    assert holding(path) == set()


@pytest.mark.parametrize("how", ["delete", "erase"])
def test_what_an_earlier_release_left_beside_a_log_goes_with_the_words(how: str, path: Path) -> None:
    left = [Path(f"{path}-bookmarks{part}") for part in ("", "-wal", "-shm")]
    with stenolog.open(path) as log:
        conversation = log["talk"]
        conversation.append(UserMessage(text=WORD))
        for file in left:
            file.write_text(WORD)
        conversation.delete() if how == "delete" else conversation.erase(conversation.position)

        assert holding(path) == set()
        assert not any(file.exists() for file in left)


def test_it_is_overwritten_whatever_the_library_was_built_with(path: Path) -> None:
    with stenolog.open(path) as log:
        with log.checkpoints.guard:
            assert log.checkpoints.open().execute("PRAGMA secure_delete").fetchone() == (1,)
        assert log.datastore.writer.execute("PRAGMA secure_delete").fetchone() == (1,)
        with log.datastore.reading() as connection:
            assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_a_process_that_has_the_conversation_in_memory_leaves_no_word_of_it_when_it_closes(
    path: Path,
) -> None:
    with stenolog.open(path) as log, stenolog.open(path) as other:
        victim(log)
        other[f"{WORD}-0"].request("a")
        other[f"{WORD}-0"].state()
        log[f"{WORD}-0"].delete()
        other.close()

    assert holding(path) == set()


def test_while_another_reads_the_write_ahead_log_has_it_and_collecting_takes_it_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stenolog.adapters.store.sqlite.turn.datastore.CHECKPOINT_MS", 1)
    with stenolog.open(path) as log, stenolog.open(path) as other:
        victim(log)
        with other.datastore.reading() as connection:
            reads = connection.execute("SELECT rowid FROM stored_events")
            reads.fetchone()
            log[f"{WORD}-0"].delete()
            assert holding(path) >= {"-wal"}
            assert not log.collect().is_complete
            reads.close()

        assert log.collect().is_complete
        assert holding(path) == set()


class TestBlobs:
    """A blob goes with the last entry that names it."""

    def named(self, log: Log, content: bytes, *names: str) -> str:
        sha = log.blobs.put(content)
        for name in names:
            log[name].append(UserMessage(parts=[ImagePart(media_type="image/png", blob=sha)]))
        return sha

    def test_one_that_another_conversation_names_stays(self, log: Log) -> None:
        both, one = self.named(log, b"both", "a", "b"), self.named(log, b"one", "a")
        meta = log.blobs.put(b"in meta")
        log["b"].append(UserMessage(text="x", meta={"deep": [{"b": ["msgpack", meta]}]}))
        log["b"].fork(name="c")
        log["a"].delete()

        assert set(log.blobs) == {both, meta}
        assert one not in log.blobs
        log["c"].delete()
        assert set(log.blobs) == {both, meta}
        log["b"].delete()
        assert len(log.blobs) == 0

    def test_of_damaged_rows_nothing_is_believed_and_nothing_raised(self, path: Path) -> None:
        with stenolog.open(path) as log:
            kept = self.named(log, b"kept", "a")
            with log.datastore.writing() as connection:
                connection.execute("UPDATE stored_events SET state = CAST(state AS TEXT)")
        with stenolog.open(path) as log:
            assert log.collect() == Collected()
            assert kept in log.blobs


@given(st.lists(st.tuples(st.text("0af 9xé", max_size=70), st.booleans()), max_size=6))
def test_whatever_stands_around_a_hash_it_is_seen(around: list[tuple[str, bool]]) -> None:
    sha = "0123456789abcdef" * 4
    payload = "".join(f"{text} {sha if named else ''} " for text, named in around).encode()

    assert shas_in(payload) == {found.decode() for found in SHA.findall(payload)}


class TestRaces:
    """A blob is written for an entry that another process appends later."""

    def test_one_that_a_living_process_has_put_stays_until_it_dies(self, path: Path) -> None:
        receiver, sender = workers.CONTEXT.Pipe(duplex=False)
        process = workers.started(workers.put_and_wait, str(path), sender)
        assert receiver.poll(workers.PATIENCE)
        sha = receiver.recv()
        with stenolog.open(path) as log:
            log["a"].append(
                UserMessage(parts=[ImagePart(media_type="image/png", blob=log.blobs.put(b"put"))])
            )
            log["a"].delete()
            assert log.collect() == Collected(kept=1)
            assert log.blobs[sha] == b"put"
            process.kill()
            process.join(workers.PATIENCE)
            assert log.collect() == Collected(blobs=1, bytes=3)

    def test_no_entry_ever_names_a_blob_that_was_collected(self, path: Path) -> None:
        done = workers.run(4, workers.put_append_delete_collect, str(path), 60)

        assert all(isinstance(collected, int) for collected in done), done
        with stenolog.open(path) as log:
            assert [problem for problem in verify(log).problems if problem.code == "blob"] == []
            with pytest.raises(BlobNotFoundError):
                log.blobs["0" * 64]
            log.collect()
            assert all(any(sha in str(dump_event(e.event)) for t in log for e in log[t]) for sha in log.blobs)


def test_collecting_says_where_it_cannot_know(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_store, "PINS_SUPPORTED", False)
    sha = TestBlobs().named(log, b"a", "a")
    log["a"].delete()

    assert sha in log.blobs
    with pytest.raises(stenolog.errors.StoreError, match="on Linux alone"):
        log.collect()


# Records of erasures in the history that an expert wrote by SQL.


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

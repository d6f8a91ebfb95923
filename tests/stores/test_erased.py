"""Entries whose payload was erased: the chain still holds, and nothing else can stand in their place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Entry,
    Log,
    ModeSwitch,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.requests import prove
from stenolog.context import LastN, Prompt
from stenolog.domain.entry import effects_left
from stenolog.domain.erasure import effects_of, erasure_of
from stenolog.domain.lanes.step import fold
from stenolog.errors import (
    ConversationExistsError,
    ConversationNotFoundError,
    CorruptLogError,
    InvalidEventError,
    PositionNotFoundError,
)
from stenolog.events import Damaged, PositionRange, Unknown, dump_event
from stenolog.importers import import_file
from stenolog.maintenance import salvage
from tests.file_bytes import words_in
from tests.strategies import logs

FORGED = b'{"parts":[{"type":"text","text":"Pay Mallory"}]}'
WHERE = "WHERE originator_version = 2"


@pytest.fixture
def kept(path: Path) -> Iterator[str]:
    """Yield the head of a small conversation, kept elsewhere."""
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="Pay Alice", author="boss"))
        log["demo"].append(AssistantMessage(agent="a", text="Done."))
        yield log["demo"].digest


def erased(path: Path, *, salt: bytes = b"", payload: bytes = b"") -> None:
    """Mark entry 2 as erased by SQL, with the true hash of what stood there."""
    connection = sqlite3.connect(path)
    ((old_salt, old),) = connection.execute(f"SELECT salt, state FROM stored_events {WHERE}").fetchall()
    connection.execute(
        f"UPDATE stored_events SET erased = ?, size = ?, salt = ?, state = ? {WHERE}",
        (sha256(old_salt + old).digest(), len(old), salt, payload),
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("left", [{"payload": FORGED}, {"salt": b"\0"}, {"payload": FORGED, "salt": b"\0"}])
def test_a_payload_behind_the_mark_of_an_erasure_is_found(
    kept: str, path: Path, left: dict[str, bytes]
) -> None:
    erased(path, **left)

    with stenolog.open(path) as log:
        problems = [(p.position, p.pointer, p.code) for p in verify(log, head=kept).problems]
        assert problems == [(2, "/digest", "digest"), (2, "/event", "erased")]
        assert [p.code for p in verify(log["demo"], head=kept).problems] == ["digest", "erased"]


def test_a_payload_behind_the_mark_of_an_erasure_is_never_read(kept: str, path: Path) -> None:
    erased(path, payload=FORGED)

    with stenolog.open(path) as log:
        assert "Mallory" not in repr([asdict(e.event) for e in (*log["demo"].entries(), *log.tail(0))])
        with pytest.raises(CorruptLogError, match="position 2 is damaged"):
            log["demo"].request("a")
        assert "Mallory" not in repr(log.application.recorder.select_events("demo"))


def test_an_erasure_past_the_log_is_a_fault_with_a_head_and_without(kept: str, path: Path) -> None:
    erased(path)

    with stenolog.open(path) as log:
        for report in (verify(log), verify(log, head=kept), verify(log["demo"], head=kept)):
            assert [(p.conversation, p.position, p.code) for p in report.problems] == [("demo", 2, "erased")]
        # Its words are in a fork, too.
        fork = log["demo"].fork(after=3, name="fork")
        assert [(p.position, p.code) for p in verify(fork).problems] == [(2, "erased")]


@pytest.mark.parametrize("way", ["a log", "an export", "a salvage", "an earlier release"])
def test_an_erasure_by_the_log_is_no_fault_in_it_or_in_a_copy(kept: str, path: Path, way: str) -> None:
    other = path.with_name("other.db")
    with stenolog.open(path) as log:
        log["demo"].erase(2)
        assert verify(log, head=kept).ok
        path.with_name("demo.jsonl").write_text(log["demo"].export("jsonl"))
    if way == "a salvage":
        salvage(path, other)
    with stenolog.open(other) as log:
        if way != "a salvage":
            import_file(log, path if way != "an export" else path.with_name("demo.jsonl"))
        if way == "an earlier release":
            # It made no record of what it took in; the entry of the erasure came with the rest.
            with log.datastore.writing() as connection:
                connection.execute("DELETE FROM history WHERE what = 'erased'")
            assert "'demo' at position 2: erased, as a later entry alone says" in verify(log).notes
        assert verify(log).problems == verify(log["demo"], head=kept).problems == ()


def test_words_that_are_put_back_past_the_log_are_a_fault(kept: str, path: Path) -> None:
    with stenolog.open(path) as log, log.datastore.writing() as connection:
        before = connection.execute(f"SELECT salt, state FROM stored_events {WHERE}").fetchone()
    with stenolog.open(path) as log:
        log["demo"].erase(2)
        with log.datastore.writing() as connection:
            connection.execute(
                f"UPDATE stored_events SET erased = NULL, size = NULL, salt = ?, state = ? {WHERE}", before
            )
        for report in (verify(log), verify(log["demo"], head=kept)):
            assert [(p.conversation, p.position, p.code) for p in report.problems] == [("demo", 2, "erased")]


def test_an_erased_entry_is_read_as_an_event_without_words(kept: str, path: Path) -> None:
    erased(path)

    with stenolog.open(path) as log:
        conversation = log["demo"]
        entry = [*conversation.entries()][1]
        assert entry.event == Unknown(topic="erased", payload=b"", ignorable=True)
        shown = conversation.timeline()[1]
        assert (shown.kind, shown.position, shown.detail) == ("erased", 2, "erased")
        assert conversation.state().anomalies == 0


def test_a_request_leaves_an_erased_entry_out_and_says_so(kept: str, path: Path) -> None:
    erased(path)

    with stenolog.open(path) as log:
        request = log["demo"].request("a", api="openai-chat")
        assert "Alice" not in str(request.body)
        assert [(left.first, left.last) for left in request.omissions if left.rule == "erased"] == [(2, 2)]


class TestErase:
    """`Conversation.erase` takes the words out of the log and of everything beside it."""

    def test_the_words_are_gone_from_every_file_and_the_digests_hold(self, path: Path) -> None:
        with stenolog.open(path) as log:
            conversation = log["demo"]
            for number in range(40):
                conversation.append(UserMessage(text=f"number {number}"))
            secret = conversation.append(UserMessage(text="the zebra flies at noon"))
            conversation.append(AssistantMessage(agent="a", text="Done."))
            conversation.state()
            conversation.request("a")
            assert log.search("zebra")
            head, logs = conversation.digest, verify(log).head

            done = conversation.erase(secret.position, reason="a zoo's secret", by="keeper")
            assert (done.positions, done.recorded_at, done.is_complete) == ((42,), {"demo": 44}, True)
            assert conversation.erase(secret.position).positions == ()

            assert log.search("zebra") == []
            assert "zebra" not in str(conversation.request("a").body)
            report = verify(log, head=logs)
            assert (report.problems, conversation.entry(43).digest) == ((), head)
            assert report.notes == (
                "'demo' at position 42: erased",
                "'demo' at position 44: keeper erased 42: a zoo's secret",
                "'demo' at position 42: erased since that head",
            )
            record = conversation.timeline()[-1]
            assert (record.author, record.text) == ("keeper", "Entry 42 erased: a zoo's secret")
            assert log.search("flies") == []
        for each in path.parent.iterdir():
            assert b"zebra" not in words_in(each), each

    def test_a_tool_whose_result_is_erased_does_not_run_again(self, log: Log) -> None:
        conversation = log["demo"]
        conversation.append(UserMessage(text="go"))
        call = ToolCall(id="c", name="shell")
        conversation.append(AssistantMessage(agent="a", tool_calls=(call,)))
        conversation.append(ToolResult(call_id="c", text="private"))
        conversation.append(AssistantMessage(agent="a", text="Done."))
        fork = conversation.fork()

        conversation.erase(4)

        for each in (conversation, fork):
            state = each.state()
            assert state.lane("a").status == "idle"
            assert [*state.open_calls()] == []
            assert "private" not in str(each.request("a", api="openai-chat").body)
        assert verify(log).ok

    def test_a_question_whose_answer_is_erased_is_not_asked_again(self, log: Log) -> None:
        conversation = log["demo"]
        conversation.append(ModeSwitch(joins=("a",)), expected=0)
        conversation.append(UserMessage(text="go"))
        conversation.append(AssistantMessage(agent="a", text="private"))
        assert conversation.state().lane("a").status == "idle"

        conversation.erase(3)

        assert conversation.state().lane("a").status == "idle"
        cancel, record = (entry.event for entry in conversation.entries(after=3))
        assert isinstance(cancel, UserMessage)
        assert cancel.control is not None
        assert erasure_of(record) is not None
        assert verify(log).ok

    def test_what_an_erased_summary_covers_is_not_sent_again(self, log: Log) -> None:
        talk = log["demo"]
        talk.join("coder", model="m")
        talk.append(UserMessage("The key is 4711."))
        talk.append(AssistantMessage("Noted: 4711.", agent="coder"))
        spans = [PositionRange(first=2, last=3)]
        talk.append(AssistantMessage("The key is 4711.", agent="coder", purpose="summary", covers=spans))
        talk.fork(after=4, name="other")

        talk.erase(4, reason="a secret")
        for each in (talk, log["other"]):
            each.append(UserMessage("Go on."))
            body = each.request("coder").body
            assert [message["content"].splitlines()[-2:] for message in body["messages"]] == [
                ["The summary of what came before was erased.", "</summary>"],
                ["Go on."],
            ]

    def test_what_another_process_leaves_beside_the_log_is_not_used(self, path: Path) -> None:
        with stenolog.open(path) as log, stenolog.open(path) as other:
            log["demo"].extend([UserMessage(text="the zebra flies")] * 200)
            log["demo"].append(AssistantMessage(agent="a", text="Done."))
            other["demo"].request("a")
            log["demo"].erase(3)
            other.close()

            with stenolog.open(path) as third:
                assert str(third["demo"].request("a").body).count("zebra") == 199

    def test_what_is_no_message_or_is_needed_is_refused(self, log: Log) -> None:
        conversation = log["demo"]
        conversation.append(UserMessage(text="go"))
        conversation.append(AssistantMessage(agent="a", tool_calls=(ToolCall(id="c", name="shell"),)))
        fork = conversation.fork(pending="keep")

        for subject, position, error in (
            (fork, 2, InvalidEventError),
            (conversation, 3, ConversationExistsError),
            (conversation, 9, PositionNotFoundError),
            (log["nobody"], 1, ConversationNotFoundError),
        ):
            with pytest.raises(error):
                subject.erase(position)
        assert verify(log).notes == ()


SWITCH = ModeSwitch(
    mode="agent",
    title="the zebra's title",
    joins=("a",),
    cards={
        "a": AgentCard(
            model="m",
            persona="The zebra flies at noon.",
            tools=[Tool(name="pay", description="Pays the zebra.", approval=True)],
            parameters={"user": "zebra"},
            policy=Prompt(base="Be brief.", tools_in={"agent": ["pay"]}) | LastN(5),
        )
    },
    meta={"app": "zebra"},
    tags=("zebra",),
)


class TestEraseSwitch:
    """An erased mode switch loses its words, and keeps its effects."""

    @pytest.fixture
    def talk(self, path: Path) -> Iterator[Conversation]:
        with stenolog.open(path) as log:
            talk = log["demo"]
            talk.append(SWITCH, expected=0)
            talk.append(UserMessage(text="go"))
            request = talk.request("a")
            call = ToolCall(id="c", name="pay")
            talk.append(AssistantMessage(agent="a", tool_calls=(call,), receipt=request.receipt))
            talk.fork(after=2, name="fork")
            yield talk

    def test_state_and_requests_rest_on_its_effects_and_no_word_stays(
        self, talk: Conversation, path: Path
    ) -> None:
        before, head = [talk.state(at=at) for at in range(1, 4)], verify(talk.log).head
        done = talk.erase(1, reason="a zoo's secret", by="keeper")

        assert (done.positions, talk.erase(1).positions) == ((1,), ())
        assert [talk.state(at=at) for at in range(1, 4)] == before
        for each in (talk, talk.log["fork"]):
            settings = each.settings()
            assert (settings.mode, settings.title, settings.members) == ("agent", "", ("a",))
            assert settings.card_of("a").policy["instructions"] == {"tools_in": {"agent": ["pay"]}}
            assert verify(each).problems == ()
        assert verify(talk.log, head=head).notes[0] == "'demo' at position 1: erased, but for its effects"
        assert talk.timeline()[0].detail.endswith("; words erased")
        talk.append(ToolResult(call_id="c", text="Paid."))
        assert talk.request("a").sendable
        ((proof,),) = (each.proofs for each in prove(talk.log) if each.conversation == "demo")
        assert proof.reason.startswith("the entry at 1 was erased by keeper")
        for file in path.parent.iterdir():
            assert b"zebra" not in words_in(file), file

    @pytest.mark.parametrize("way", ["a log", "an export", "a salvage"])
    def test_a_copy_has_its_effects(self, talk: Conversation, path: Path, way: str) -> None:
        talk.erase(1)
        other, export = path.with_name("other.db"), path.with_name("demo.jsonl")
        export.write_text(talk.export("jsonl"))
        talk.log.close()
        if way == "a salvage":
            salvage(path, other)
        with stenolog.open(other) as log:
            if way != "a salvage":
                import_file(log, export if way == "an export" else path)
            assert log["demo"].settings().members == ("a",)
            assert verify(log).problems == verify(log["demo"]).problems == ()

    def test_effects_that_the_erasure_did_not_leave_are_damage(self, talk: Conversation, path: Path) -> None:
        talk.erase(1)
        talk.log.close()
        connection = sqlite3.connect(path)
        ((left,),) = connection.execute("SELECT state FROM stored_events WHERE rowid = 1").fetchall()
        assert b'"approval":true' in left
        forged = left.replace(b',"approval":true', b"")
        connection.execute("UPDATE stored_events SET state = ? WHERE rowid = 1", (forged,))
        connection.commit()
        connection.close()

        with stenolog.open(path) as log:
            for report in (verify(log), verify(log["demo"])):
                assert {(p.position, p.code) for p in report.problems} == {(1, "erased")}
            assert isinstance(log["demo"].entry(1).event, Damaged)
            for reads in (log["demo"].settings, lambda: log["demo"].request("a")):
                with pytest.raises(CorruptLogError):
                    reads()
        salvage(path, path.with_name("other.db"))
        with stenolog.open(path.with_name("other.db")) as log:
            assert log["demo"].entry(1).event.kind == "unknown"

    @given(logs())
    def test_no_state_rests_on_the_words_of_a_switch(self, entries: list[Entry]) -> None:
        erased = [
            entry._replace(event=effects_of(entry.event)) if isinstance(entry.event, ModeSwitch) else entry
            for entry in entries
        ]

        assert fold(erased) == fold(entries)
        for entry in erased:
            if isinstance(entry.event, ModeSwitch):
                topic, payload = dump_event(entry.event)
                assert effects_left(topic, payload) == payload

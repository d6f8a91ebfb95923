"""verify: whatever was changed is named, with its conversation, its position and a JSON pointer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from eventsourcing.persistence import StoredEvent

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ModeSwitch, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.conversation.verifying.report import Report
from stenolog.events import Unknown
from stenolog.parts import FilePart, ImagePart
from stenolog.projections.json_checks import JsonDifference, first_difference
from tests.stores.conftest import said

Damage = Callable[..., Report]


def found(report: Report) -> list[tuple[str, int, str, str]]:
    return [(p.conversation, p.position, p.pointer, p.code) for p in report.problems]


@pytest.fixture
def damage(path: Path) -> Damage:
    """Write a log, change it behind its back, and verify it."""
    with stenolog.open(path) as log:
        said(log["demo"], "a", "b", "c", "d")
        said(log["demo"].fork(after=3, name="fork"), "e")

    def change(*statements: str, head: str | None = None) -> Report:
        with sqlite3.connect(path) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        with stenolog.open(path) as log:
            return verify(log, head=head)

    return change


def test_a_sound_log_has_no_problems(log: Log) -> None:
    said(log["demo"], "a")
    said(log["demo"].fork(), "b")
    report = verify(log)

    assert report.ok
    assert [(c.conversation, c.position, c.entries) for c in report.conversations] == [
        ("demo", 2, 2),
        ("demo~1", 4, 2),
    ]
    assert report.conversations[0].digest == log["demo"].digest
    assert (report.problems, report.anomalies, report.notes) == ((), (), ())


def test_an_empty_log_is_sound(log: Log) -> None:
    assert verify(log).ok
    assert verify(log["nobody"]).ok


def test_a_single_conversation_is_checked_with_what_it_inherits(log: Log) -> None:
    said(log["demo"], "a")
    fork = log["demo"].fork()

    (checked,) = verify(fork).conversations
    assert (checked.conversation, checked.position, checked.entries) == ("demo~1", 3, 3)


@pytest.mark.parametrize(
    "change",
    [
        "at = at + 1",
        "entry_id = 'other'",
        "salt = x'00'",
        "topic = 'assistant_message@1'",
        """state = cast('{"parts":[{"type":"text","text":"B"}]}' AS BLOB)""",
        "size = 7",
        "erased = zeroblob(32)",
    ],
)
def test_a_changed_entry_breaks_its_digest(damage: Damage, change: str) -> None:
    report = damage(f"UPDATE stored_events SET {change} WHERE originator_id = 1 AND originator_version = 4")

    assert ("demo", 4, "/digest", "digest") in found(report)
    assert {position for _, position, _, _ in found(report)} == {4}


def test_a_changed_digest_breaks_it_and_the_next(damage: Damage) -> None:
    report = damage(
        "UPDATE stored_events SET digest = zeroblob(32) WHERE originator_id = 1 AND originator_version = 4"
    )

    assert found(report) == [("demo", 4, "/digest", "digest"), ("demo", 5, "/digest", "digest")]
    assert report.problems[0].found == "00" * 32


def test_a_missing_entry_is_a_gap(damage: Damage) -> None:
    report = damage("DELETE FROM stored_events WHERE originator_id = 1 AND originator_version = 4")

    assert found(report) == [("demo", 5, "/position", "gap")]
    assert (report.problems[0].expected, report.problems[0].found) == ("4", "5")


def test_swapped_entries_are_found(damage: Damage) -> None:
    report = damage(
        "UPDATE stored_events SET originator_version = 99 WHERE originator_id = 1 AND originator_version = 3",
        "UPDATE stored_events SET originator_version = 3 WHERE originator_id = 1 AND originator_version = 4",
        "UPDATE stored_events SET originator_version = 4 WHERE originator_version = 99",
    )

    assert ("demo", 3, "/digest", "digest") in found(report)


def test_a_cut_tail_is_found_with_a_head_kept_elsewhere(damage: Damage, path: Path) -> None:
    with stenolog.open(path) as log:
        head = log["demo"].digest
    cut = "DELETE FROM stored_events WHERE originator_id = 1 AND originator_version = 5"

    assert damage(head=head).ok
    assert damage(cut).ok
    (problem,) = damage(head=head).problems
    assert (problem.code, problem.expected) == ("head", head)


def test_a_head_kept_earlier_still_stands_in_a_log_that_has_grown(log: Log) -> None:
    said(log["demo"], "a")
    head = log["demo"].digest
    said(log["demo"], "b")

    assert verify(log["demo"], head=head).ok
    assert verify(log, head=head.upper()).ok
    (problem,) = verify(log["demo"], head="0" * 64).problems
    assert (problem.conversation, problem.position, problem.code) == ("demo", 3, "head")
    assert problem.found == log["demo"].digest


class TestForks:
    """A fork hangs on the digest of its parent."""

    def test_a_change_in_the_parent_is_the_parents_alone(self, damage: Damage) -> None:
        report = damage("UPDATE stored_events SET at = 0 WHERE originator_id = 1 AND originator_version = 3")

        assert found(report) == [("demo", 3, "/digest", "digest")]

    def test_a_fork_that_is_moved_is_found(self, damage: Damage) -> None:
        report = damage("UPDATE conversations SET fork_position = 2 WHERE name = 'fork'")

        assert ("fork", 4, "/position", "gap") in found(report)

    def test_a_fork_that_lost_its_parent_is_found(self, damage: Damage) -> None:
        report = damage("UPDATE conversations SET parent = NULL, fork_position = NULL WHERE name = 'fork'")

        assert ("fork", 4, "/position", "gap") in found(report)

    def test_a_parent_that_lost_its_entries_is_found(self, damage: Damage) -> None:
        report = damage(
            "DELETE FROM stored_events WHERE originator_id = 1 AND originator_version BETWEEN 2 AND 9"
        )

        assert ("fork", 3, "/position", "unreadable") in found(report)

    def test_entries_of_nobody_are_found(self, damage: Damage) -> None:
        report = damage("PRAGMA foreign_keys = OFF", "DELETE FROM conversations WHERE name = 'fork'")

        assert {code for *_, code in found(report)} == {"file", "history"}


class TestPayloads:
    """A payload decodes, and is written back as it stands."""

    @pytest.mark.parametrize("payload", ["nonsense", '{"parts":7}', "", "[]"])
    def test_one_that_does_not_decode_is_found(self, damage: Damage, payload: str) -> None:
        report = damage(
            f"UPDATE stored_events SET state = cast('{payload}' AS BLOB) WHERE originator_version = 2"
        )

        assert ("demo", 2, "/event", "payload") in found(report)

    def test_one_that_nobody_would_write_so_is_found_by_its_place(self, log: Log) -> None:
        odd = b'{"parts":[{"type":"text","text":"a"}],"author":""}'
        log.application.recorder.insert_events([StoredEvent("demo", 1, "user_message@1", odd)])

        (problem,) = verify(log).problems
        assert (problem.position, problem.pointer, problem.code) == (1, "/event/author", "payload")
        assert (problem.expected, problem.found) == ("nothing", '""')

    def test_a_column_of_another_type_is_found(self, damage: Damage) -> None:
        report = damage(
            "UPDATE stored_events SET at = 'noon' WHERE originator_id = 1 AND originator_version = 4"
        )

        assert ("demo", 4, "/at", "unreadable") in found(report)

    def test_what_this_release_does_not_know_is_noted(self, log: Log) -> None:
        log["demo"].append(Unknown(topic="user_message@9", payload=b"{}"))
        report = verify(log)

        assert report.ok
        assert report.notes == ("'demo' at position 2: this release does not know user_message@9",)


class TestBlobs:
    """Every blob that is named is there and whole."""

    def test_missing_ones_are_found_where_they_are_named(self, log: Log) -> None:
        there = log.blobs.put(b"there")
        log["demo"].append(UserMessage(parts=[ImagePart(blob=there), FilePart(blob="f" * 64)]))
        log["demo"].append(ToolResult(call_id="c", blob="e" * 64))

        assert (
            found(verify(log))
            == found(verify(log["demo"]))
            == [
                ("demo", 2, "/event/parts/1/blob", "blob"),
                ("demo", 3, "/event/blob", "blob"),
            ]
        )

    @pytest.mark.parametrize(
        "change", ["bytes = x'00'", "bytes = 7", "sha256 = zeroblob(32)", "sha256 = 'x'"]
    )
    def test_damaged_ones_are_found_though_nobody_names_them(
        self, damage: Damage, path: Path, change: str
    ) -> None:
        with stenolog.open(path) as log:
            log.blobs.put(b"whole")
            assert verify(log).blobs == 1
        (problem,) = damage(f"UPDATE blobs SET {change}").problems

        assert (problem.code, problem.pointer[:7]) == ("blob", "/blobs/")


class TestFile:
    """The file itself: SQLite's own checks, and tables that are ours."""

    def test_a_changed_schema_is_found(self, damage: Damage) -> None:
        report = damage("CREATE INDEX t ON stored_events (at)")

        assert [p.found for p in report.problems] == [
            "the schema of t is not the one that this release makes"
        ]

    def test_a_missing_index_is_found(self, damage: Damage) -> None:
        assert {code for *_, code in found(damage("DROP INDEX conversations_parent"))} == {"file"}


class TestAnomalies:
    """What came out of order is counted and named; the log is sound all the same."""

    def test_they_are_named(self, log: Log) -> None:
        said(log["demo"], "a")
        log["demo"].append(ToolResult(call_id="nobody called", text="x"))
        report = verify(log)

        assert report.ok
        (anomaly,) = report.anomalies
        assert (anomaly.conversation, anomaly.position) == ("demo", 3)
        assert "nobody called" in anomaly.what

    def test_an_ordinary_conversation_has_none(self, log: Log) -> None:
        log["demo"].extend(
            [
                ModeSwitch(mode="agent", joins=["coder"]),
                UserMessage(text="a"),
                LlmError(agent="coder", category="timeout"),
                AssistantMessage(agent="coder", text="b"),
            ]
        )

        assert verify(log).anomalies == ()


def test_progress_can_be_watched(log: Log) -> None:
    said(log["a"], "1", "2")
    said(log["b"], "3")
    watched: list[tuple[str, int]] = []

    def watch(items: object, label: str, total: int | None) -> object:
        count = 0
        for item in items:  # type: ignore[attr-defined]
            count += 1
            yield item
        watched.append((label, count))

    assert verify(log, watch=watch).ok  # type: ignore[arg-type]
    assert watched == [("verifying", 2)]
    assert verify(log["a"], watch=watch).ok  # type: ignore[arg-type]
    assert watched[1:] == [("verifying a", 3)]


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (1, 1, None),
        ({"a": [1]}, {"a": [1]}, None),
        (1, True, JsonDifference("", "1", "true")),
        (1, 1.0, JsonDifference("", "1", "1.0")),
        ({"a": 1}, {"a": 1, "b": 2}, JsonDifference("/b", "nothing", "2")),
        ({"a": 1, "b": 2}, {"a": 1}, JsonDifference("/b", "2", "nothing")),
        ([1, 2], [1], JsonDifference("/1", "2", "nothing")),
        ({"x/y": {"~": 1}}, {"x/y": {"~": 2}}, JsonDifference("/x~1y/~0", "1", "2")),
        (["a" * 200], ["b"], JsonDifference("/0", '"' + "a" * 78 + "…", '"b"')),
    ],
)
def test_the_first_difference_is_named_by_a_json_pointer(
    one: object, other: object, difference: JsonDifference | None
) -> None:
    assert first_difference(one, other) == difference

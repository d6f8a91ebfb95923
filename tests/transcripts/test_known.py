"""A file that is as it was when it was imported is not gone through again, unless the log has lost of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.adapters.importers.detection.detect import recognise_stream
from stenolog.adapters.importers.importer import import_stream
from stenolog.adapters.importers.intake.known_sessions import Naming, Place
from stenolog.importers import Report, import_file, import_files
from stenolog.maintenance import erase_subject, find_subject, verify
from tests.file_bytes import files_with, words_in
from tests.transcripts.given import SESSION, assistant, item, lines, message, meta, text, user
from tests.transcripts.programs_given import KIMI, asked, part

TALK = lines(user("u1", None, "Which test fails?"), assistant("a1", "u1", text("The third.")), "no JSON")
MORE = lines(user("u2", "a1", "Since when?"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield log


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(TALK)
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that were gone through."""
    found: list[Path] = []

    def looked(stream: BinaryIO) -> str:
        found.append(Path(stream.name))
        return recognise_stream(stream)

    monkeypatch.setattr("stenolog.adapters.importers.importer.recognise_stream", looked)
    return found


def report(log: Log, file: Path) -> Report:
    """Return the report of an import into a log that remembers no files."""
    return import_file(log, file, keep_raw=True)


def test_a_file_that_has_not_changed_is_told_of_as_before_and_not_read_again(
    log: Log, file: Path, read: list[Path]
) -> None:
    import_file(log, file)

    again = import_file(log, file)

    assert read == [file]
    assert again == report(log, file)
    assert (again.conversations[0].already, len(again.skipped)) == (4, 1)


def test_what_was_told_together_is_known_by_itself(log: Log, file: Path, read: list[Path]) -> None:
    other = file.with_name("other.jsonl")
    other.write_bytes(lines(meta(), message("user", "Hi"), item("ghost_snapshot")))
    reports = list(import_files(log, [file, other]))

    again = list(import_files(log, [other, file]))

    assert read == [file, other]
    assert [each.file for each in again] == [str(other), str(file)]
    assert all(isinstance(each, Report) for each in reports)


@pytest.mark.parametrize("grown", [TALK + MORE, TALK.replace(b"third", b"fifth")])
def test_a_file_that_has_changed_is_read(log: Log, file: Path, read: list[Path], grown: bytes) -> None:
    import_file(log, file)
    file.write_bytes(grown)

    import_file(log, file)

    assert read == [file, file]


def test_what_has_grown_comes_in_and_is_known_from_then_on(log: Log, file: Path, read: list[Path]) -> None:
    import_file(log, file)
    file.write_bytes(TALK + MORE)

    found = [import_file(log, file).conversations[0] for _ in range(2)]

    assert [(each.appended, each.already) for each in found] == [(1, 4), (0, 5)]
    assert read == [file, file]


def test_what_was_renamed_is_gone_on_with_where_it_is(log: Log, file: Path) -> None:
    import_file(log, file)
    log[log.names()[0]].rename("mine")
    found = import_file(log, file)
    file.write_bytes(TALK + MORE)

    grown = import_file(log, file)

    assert log.names() == ["mine"]
    assert [(one.name, one.appended, one.already) for one in found.conversations] == [("mine", 0, 4)]
    assert [(one.name, one.appended, one.already) for one in grown.conversations] == [("mine", 1, 4)]


def test_what_was_deleted_stays_deleted_until_it_is_asked_for(log: Log, file: Path, read: list[Path]) -> None:
    first = import_file(log, file)
    log[first.conversations[0].name].delete()

    gone = [import_file(log, file) for _ in range(2)]
    file.write_bytes(TALK + MORE)
    grown = import_file(log, file)

    assert [[left.name for left in report.left_out] for report in (*gone, grown)] == [[SESSION]] * 3
    assert (log.names(), len(read)) == ([], 3)
    again = import_file(log, file, again=True)
    assert [(one.name, one.appended) for one in again.conversations] == [(SESSION, 5)]
    assert (import_file(log, file).left_out, log.names()) == ([], [SESSION])


@pytest.mark.parametrize("moved", ["deleted", "renamed"])
def test_what_is_moved_between_being_found_and_read_does_not_begin_anew(
    log: Log, file: Path, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    talk = log[import_file(log, file).conversations[0].name]
    find = Naming.find_place

    def found(naming: Naming, own: str, *given: Any) -> Place:
        place = find(naming, own, *given)
        talk.delete() if moved == "deleted" else talk.rename("mine")
        return place

    file.write_bytes(TALK + MORE)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Naming, "find_place", found)
        (one,) = import_file(log, file).conversations
    left = import_file(log, file).left_out

    if moved == "deleted":
        assert (log.names(), len(left)) == ([], 1)
        assert "was deleted" in one.failed
    else:
        assert (log.names(), one.failed, talk.position) == (["mine"], "", 5)


def test_what_was_deleted_and_came_back_by_its_own_export_is_gone_on_with(log: Log, file: Path) -> None:
    import_file(log, file)
    exported = file.with_name("export.jsonl")
    exported.write_text(log[SESSION].export())
    log[SESSION].delete()
    assert import_file(log, file).left_out

    import_file(log, exported)

    assert [(one.name, one.already) for one in import_file(log, file).conversations] == [(SESSION, 4)]
    log[SESSION].rename("mine")
    assert import_file(log, file).conversations[0].name == "mine"


def test_a_session_is_known_by_its_id_wherever_its_file_lies(log: Log, file: Path) -> None:
    import_file(log, file)
    log[SESSION].rename("mine")
    moved = file.rename(file.with_name("agent-1234.jsonl"))

    assert import_file(log, moved).conversations[0].name == "mine"
    log["mine"].delete()
    assert import_file(log, moved.rename(file)).left_out


def test_what_has_no_session_id_is_known_by_its_file(log: Log, tmp_path: Path) -> None:
    one, other = tmp_path / "chat.jsonl", tmp_path / "b" / "chat.jsonl"
    other.parent.mkdir()
    for path, words in ((one, "Hi"), (other, "Ho")):
        path.write_bytes(lines({"role": "user", "content": words}))
    import_file(log, one)
    log["chat"].rename("first")
    assert import_file(log, other).conversations[0].name == "chat"
    log["chat"].delete()

    found = list(import_files(log, [one, other]))

    assert isinstance(found[0], Report)
    assert isinstance(found[1], Report)
    assert [each.name for each in found[0].conversations] == ["first"]
    assert ([each.name for each in found[1].left_out], found[1].conversations) == (["chat"], [])


def test_what_was_imported_by_a_name_is_gone_on_with_with_and_without_it(log: Log, file: Path) -> None:
    import_file(log, file, name="mine")
    log["mine"].rename("yours")

    assert import_file(log, file, name="mine").conversations[0].name == "yours"
    assert import_file(log, file).conversations[0].name == "yours"
    assert log.names() == ["yours"]


def test_a_deleted_conversation_leaves_no_word_of_its_id(log: Log, file: Path) -> None:
    import_file(log, file)
    log[SESSION].delete()
    log.collect()

    assert SESSION.encode() not in words_in(Path(log.path))


def test_what_stands_behind_it_by_now_does_not_matter(log: Log, file: Path, read: list[Path]) -> None:
    name = import_file(log, file).conversations[0].name
    log[name].append(UserMessage(text="Go on."))

    assert import_file(log, file).conversations[0].already == 4
    assert read == [file]


def test_by_another_name_it_is_another_file(log: Log, file: Path, read: list[Path]) -> None:
    import_file(log, file)
    import_file(log, file, name="mine")

    assert read == [file, file]
    assert log["mine"].position == 4


def test_what_failed_is_tried_again(log: Log, file: Path, read: list[Path]) -> None:
    file.write_bytes(lines({"role": "user", "content": "Hi"}))
    import_file(log, file)
    file.write_bytes(lines({"role": "user", "content": "Ho"}))

    failed = [import_file(log, file).conversations[0].failed for _ in range(2)]

    assert all("is it another transcript" in each for each in failed)
    assert len(read) == 3


def test_what_is_remembered_may_be_thrown_away(log: Log, file: Path, read: list[Path]) -> None:
    first = import_file(log, file)
    log.checkpoints.close()
    Path(log.checkpoints.path).unlink()

    again = import_file(log, file)

    assert (again.conversations[0].already, again.conversations[0].appended) == (4, 0)
    assert (first.conversations[0].appended, len(read)) == (4, 2)


HEARD: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello.", "modelInfo": {}},
]
ASKED = {"role": "user", "content": "And?"}
STREAMS = {
    "wire.jsonl": (lines(*KIMI), lines(*KIMI, asked("And?")), lines(*KIMI[:4], part("s1", "text", "No."))),
    "api_conversation_history.json": tuple(
        json.dumps(each).encode()
        for each in (HEARD, [*HEARD, ASKED], [HEARD[0], {**HEARD[1], "content": "No."}])
    ),
    "said.jsonl": (lines(*HEARD), lines(*HEARD, ASKED), lines(HEARD[0], {**HEARD[1], "content": "No."})),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_not_named_by_its_folder_and_continues_only_what_it_begins_with(
    log: Log, name: str
) -> None:
    first, grown, other = STREAMS[name]
    reports = []
    for nth, content in enumerate((first, grown, other, first, grown, other)):
        reports.append(import_stream(log, BytesIO(content), file=Path(f"random{nth}", name)))
    found = [one for report in reports for one in report.conversations]
    stem = name.partition(".")[0]

    assert [one.name for one in found] == [stem, stem, f"{stem}-2", stem, stem, f"{stem}-2"]
    # Cline writes its file anew: an older one takes back what it lacks, and the newer one brings it again.
    again = [1, 1, 0] if name == "api_conversation_history.json" else [0, 0, 0]
    assert [one.appended for one in found][3:] == again
    assert found[1].appended == 1
    assert len(log.names()) == 2


def test_a_kept_file_with_erased_words_is_in_the_log_no_more(tmp_path: Path, file: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        import_file(log, file, keep_raw=True)
        log[SESSION].erase(next(entry.position for entry in log[SESSION] if entry.id == "a1"))
        report = verify(log)
        assert report.ok
        assert any("1 piece of the kept file is not there" in note for note in report.notes)

    assert files_with(tmp_path, b"The third.", (file.name,)) == []


def test_a_kept_file_of_two_conversations_stays_until_the_words_are_erased_in_both(
    log: Log, file: Path
) -> None:
    for name in (None, "other"):
        import_file(log, file, name=name, keep_raw=True)
    kept = log[SESSION].erase(next(entry.position for entry in log[SESSION] if entry.id == "a1")).kept_blobs
    assert list(kept.values()) == [["other"]]
    assert all(b"The third." in log.blobs[sha] for sha in kept)

    done = erase_subject(log, find_subject(log, text="The third."))
    assert (done.stays, done.beside) == ((), ())
    assert not any(sha in log.blobs for sha in kept)

"""A conversation written as JSON Lines comes back with the same digests, or is refused and leaves nothing."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Entry, Log, NewEntry, StenologError, UserMessage
from stenolog.errors import (
    BlobNotFoundError,
    ConversationExistsError,
    CorruptLogError,
)
from stenolog.importers import Report, export_jsonl, import_file
from stenolog.maintenance import verify
from stenolog.parts import ImagePart
from stenolog.plugins import FORMATS
from stenolog.requests import build, lanes
from stenolog.testing import START, example_conversation, examples
from tests.transcripts.given import Import

BYTES = b"test"
"""The blob that the examples name."""
PICTURE = b"\x89PNG\0 a picture"
FORKED_AT = 8
Line = dict[str, Any]
Change = Callable[[list[Line]], object]


@pytest.fixture
def log() -> Iterator[Log]:
    """Yield a conversation with all five kinds, every field of each, blobs, and a fork of it."""
    with stenolog.open(":memory:") as log:
        events = [*example_conversation(), *examples().values()]
        log["demo"].extend([NewEntry(event, f"e{n}", START) for n, event in enumerate(events, 1)], expected=0)
        log.blobs.put(BYTES)
        fork = log["demo"].fork(after=FORKED_AT, name="other", pending="close")
        picture = ImagePart(media_type="image/png", blob=log.blobs.put(PICTURE))
        fork.append(UserMessage(parts=(picture,), to=("coder",)), id="look", time=START)
        yield log


@pytest.fixture
def exported(log: Log) -> list[Line]:
    """Return the lines of an export of the conversation."""
    return [json.loads(line) for line in export(log, "demo").splitlines()]


def export(log: Log, *names: str) -> str:
    stream = io.StringIO()
    for name in names:
        export_jsonl(log[name], stream)
    return stream.getvalue()


def written(lines: list[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def requests(log: Log, name: str) -> dict[tuple[str, str], str]:
    """Return the sha256 of the request of every lane, on every API."""
    entries = list(log[name].entries())
    return {
        (lane.address, api): build(entries, lane.agent, task=lane.task, api=api, blobs=log.blobs).sha256
        for lane in lanes(entries)
        for api in FORMATS
    }


def at(position: int) -> Callable[[Line], bool]:
    return lambda line: line.get("position") == position


def first(lines: list[Line], wanted: Callable[[Line], bool]) -> int:
    """Return the index of the first such line."""
    return next(nth for nth, line in enumerate(lines) if wanted(line))


def is_blob(line: Line) -> bool:
    return "blob" in line


# There and back


def test_an_export_comes_back_with_the_same_digests_entries_and_requests(log: Log, into: Import) -> None:
    report = into.file(export(log, "demo", "other").encode()).report

    assert [(found.name, found.appended) for found in report.conversations] == [
        ("demo", log["demo"].position),
        ("other", FORKED_AT + len(_own(log))),
    ]
    for name in ("demo", "other"):
        assert into.log[name].digest == log[name].digest
        assert list(into.log[name].entries()) == list(log[name].entries())
        assert list(into.log[name].records()) == list(log[name].records())
        assert requests(into.log, name) == requests(log, name)
    assert dict(into.log.blobs) == dict(log.blobs)
    assert export(into.log, "demo", "other") == export(log, "demo", "other")
    assert verify(into.log).problems == ()


def _own(log: Log) -> list[Entry]:
    return list(log["other"].entries(after=FORKED_AT))


def test_a_conversation_comes_back_under_another_name(log: Log, into: Import, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(export(log, "demo"))
    import_file(into.log, path, name="copy")

    assert (list(into.log), into.log["copy"].digest) == (["copy"], log["demo"].digest)


def test_an_export_that_has_grown_appends_what_is_new(log: Log, into: Import) -> None:
    into.file(export(log, "demo").encode())
    before = log["demo"].position
    log["demo"].append(UserMessage(text="One more thing", to=("coder",)), id="more", time=START)
    grown = export(log, "demo").encode()
    counts = [_counts(into.file(grown).report), _counts(into.file(grown).report)]

    assert counts == [(1, before), (0, before + 1)]
    assert into.log["demo"].digest == log["demo"].digest


def _counts(report: Report) -> tuple[int, int]:
    (found,) = report.conversations
    return found.appended, found.already


def test_an_older_export_of_a_conversation_that_went_on_changes_nothing(log: Log, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(export(log, "demo"))
    log["demo"].append(UserMessage(text="One more thing", to=("coder",)))
    stands = list(log["demo"].records())

    report = import_file(log, path)

    assert _counts(report) == (0, len(stands) - 1)
    assert list(log["demo"].records()) == stands


def test_another_conversation_of_the_same_name_stays_as_it_is(log: Log, into: Import) -> None:
    into.log["demo"].append(UserMessage(text="Something else"))
    stands = list(into.log["demo"].records())

    with pytest.raises(ConversationExistsError, match="differs at position 1; import with another name"):
        into.file(export(log, "demo").encode())

    assert list(into.log["demo"].records()) == stands
    assert len(into.log.blobs) == 0


def test_a_blob_that_was_never_there_stops_no_export(into: Import) -> None:
    with stenolog.open(":memory:") as log:
        log["demo"].append(UserMessage(parts=(ImagePart(blob="ab" * 32),)))
        into.file(export(log, "demo").encode())

        assert into.log["demo"].digest == log["demo"].digest


def test_a_damaged_blob_is_not_exported(log: Log) -> None:
    sha = next(iter(log.blobs))
    with log.datastore.writing() as connection:
        connection.execute("UPDATE blobs SET bytes = x'00'")

    with pytest.raises(BlobNotFoundError, match=sha[:12]):
        export(log, "demo")


# Changed on the way


def _edit(position: int, /, **changes: Any) -> Change:
    return lambda lines: lines[first(lines, at(position))].update(changes)


def _edit_payload(lines: list[Line]) -> None:
    line = lines[first(lines, at(2))]
    line["payload"] = line["payload"].replace("Which", "whICH")


def _swap(lines: list[Line]) -> None:
    here, there = first(lines, at(4)), first(lines, at(5))
    lines[here], lines[there] = lines[there], lines[here]


def _renumber(lines: list[Line]) -> None:
    """Remove an entry, and let the others close ranks."""
    del lines[first(lines, at(4))]
    for line, position in zip((line for line in lines if "position" in line), count(1), strict=False):
        line["position"] = position


def _other_bytes(lines: list[Line]) -> None:
    lines[first(lines, is_blob)]["base64"] = base64.b64encode(b"other").decode()


TAMPERED: dict[str, tuple[Change, str]] = {
    "payload edited": (_edit_payload, "position 2: the entry is not what its digest says"),
    "time edited": (_edit(3, at="2026-01-01T09:00:01+00:00"), "position 3: the entry is not what its digest"),
    "id edited": (_edit(3, id="e99"), "position 3: the entry is not what its digest says"),
    "topic edited": (_edit(3, topic="user_message@1"), "position 3: the entry is not what its digest says"),
    "salt edited": (_edit(3, salt="00" * 16), "position 3: the entry is not what its digest says"),
    "digest edited": (_edit(5, digest="ab" * 32), "position 5: the entry is not what its digest says"),
    "entry removed": (lambda lines: lines.pop(first(lines, at(4))), "expected position 4, found 5"),
    "entry removed, rest renumbered": (_renumber, "position 4: the entry is not what its digest says"),
    "entry twice": (lambda lines: lines.insert(3, lines[2]), "expected position 3, found 2"),
    "reordered": (_swap, "expected position 4, found 5"),
    "last entry removed": (lambda lines: lines.pop(), "is the export cut off"),
    "of a later version": (lambda lines: lines[0].update(stenolog=2), "version 2; this release reads 1"),
    "header removed": (lambda lines: lines.pop(0), "an object with the keys position"),
    "header moved": (lambda lines: lines.insert(3, lines.pop(0)), "expected a header line before"),
    "head wrong": (lambda lines: lines[0].update(head="ab" * 32), "entries up to the digest abab"),
    "count wrong": (lambda lines: lines[0].update(entries=7), "expected 7 entries"),
    "blob removed": (
        lambda lines: lines.pop(first(lines, is_blob)),
        "the blob 9f86.* does not stand before it",
    ),
    "blob bytes wrong": (_other_bytes, "is not what its hash says"),
    "blob is no base64": (
        lambda lines: lines[first(lines, is_blob)].update(base64="!"),
        "not a line of a stenolog export",
    ),
    "name of another type": (
        lambda lines: lines[0].update(conversation=7),
        "not a line of a stenolog export",
    ),
    "id of another type": (_edit(3, id=7), "not a line of a stenolog export"),
    "topic of another type": (_edit(3, topic=[1]), "not a line of a stenolog export"),
    "position of another type": (_edit(3, position="3"), "expected position 3, found 3"),
    "digest of another type": (_edit(3, digest=7), "not a line of a stenolog export"),
    "payload of another type": (_edit(3, payload={}), "not a line of a stenolog export"),
    "time without a zone": (_edit(3, at="2026-01-01T09:00:01"), "not a line of a stenolog export"),
    "half a surrogate pair": (_edit(3, id="e\ud83d"), "damaged: lone surrogates"),
}


@pytest.mark.parametrize(("change", "words"), TAMPERED.values(), ids=TAMPERED)
def test_an_export_that_was_changed_is_refused_with_nothing_written(
    exported: list[Line], into: Import, change: Change, words: str
) -> None:
    change(exported)

    with pytest.raises(StenologError, match=words) as raised:
        into.file(written(exported))

    assert raised.type.__name__ in ("CorruptLogError", "UnknownFormatError", "UnsupportedVersionError")
    assert_nothing_written(into.log)


def assert_nothing_written(log: Log) -> None:
    assert (log.names(archived=True), len(log.blobs), verify(log).ok) == ([], 0, True)


def test_when_the_second_conversation_was_changed_the_first_is_not_written_either(
    log: Log, into: Import
) -> None:
    lines = [json.loads(line) for line in export(log, "demo", "other").splitlines()]
    lines[-1]["payload"] = lines[-1]["payload"].replace("image", "images")

    with pytest.raises(CorruptLogError, match="'other' at position"):
        into.file(written(lines))

    assert_nothing_written(into.log)


@pytest.mark.parametrize("cut", [1, 2, 100, 1000])
def test_an_export_that_was_cut_off_is_refused_with_nothing_written(log: Log, into: Import, cut: int) -> None:
    with pytest.raises(CorruptLogError, match=r"cut off"):
        into.file(export(log, "demo").encode()[: -1 - cut])

    assert_nothing_written(into.log)


def test_a_number_does_not_pass_for_an_id_of_its_digits(into: Import) -> None:
    with stenolog.open(":memory:") as log:
        log["digits"].append(UserMessage(text="Hi"), id="7")
        lines = [json.loads(line) for line in export(log, "digits").splitlines()]
    lines[2]["id"] = 7

    with pytest.raises(
        CorruptLogError, match=r"line 3: not a line of a stenolog export .expected text, found 7"
    ):
        into.file(written(lines))

    assert_nothing_written(into.log)


def test_a_flipped_bit_anywhere_in_a_payload_is_found(log: Log, into: Import) -> None:
    content = export(log, "other").encode()
    start = content.rindex(b'"payload":') + len(b'"payload":')
    end = content.index(b',"blobs"', start)
    for place in range(start, end, (end - start) // 60):
        flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        with pytest.raises(StenologError):
            into.file(flipped)

    assert_nothing_written(into.log)


def test_progress_of_an_export_goes_up_to_its_bytes(tmp_path: Path) -> None:
    done: list[int] = []
    export = tmp_path / "export.jsonl"
    with stenolog.open(":memory:") as log, export.open("w") as stream:
        for number in range(5):
            log["demo"].append(UserMessage(text=f"Number {number}"))
        export_jsonl(log["demo"], stream)
    with stenolog.open(":memory:") as log:
        import_file(log, export, progress=done.append)

    assert len(done) == 2 * 7 + 1 == len(set(done)) + 1
    assert done == sorted(done)
    assert done[-1] == export.stat().st_size


class TestErased:
    """An erased entry travels as what is left of it: its place, its length and the hash of its payload."""

    @pytest.fixture
    def lines(self) -> list[Line]:
        """Return the lines of an export of a conversation whose second entry was erased."""
        with stenolog.open(":memory:") as log:
            log["demo"].append(UserMessage(text="Good morning."))
            log["demo"].append(UserMessage(text="The key is swordfish."))
            log["demo"].erase(3, reason="a key", by="keeper")
            assert "swordfish" not in export(log, "demo")
            return [json.loads(line) for line in export(log, "demo").splitlines()]

    def test_it_comes_back_erased_under_the_same_digests_and_is_proved(
        self, lines: list[Line], tmp_path: Path
    ) -> None:
        file = tmp_path / "demo.jsonl"
        file.write_bytes(written(lines))
        with stenolog.open(":memory:") as log:
            import_file(log, file)
            assert [item.kind for item in log["demo"].timeline()] == ["mode", "message", "erased", "message"]
            assert log["demo"].digest == lines[0]["head"]
            assert verify(log).notes[0] == "'demo' at position 3: erased"
            assert verify(log).ok
            assert written([json.loads(line) for line in export(log, "demo").splitlines()]) == written(lines)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"erased": "00" * 32}, "the entry is not what its digest says"),
            ({"size": 3}, "the entry is not what its digest says"),
            ({"erased": "00"}, "an erased entry needs the length and the sha256"),
            ({"size": True}, "an erased entry needs the length and the sha256"),
            ({"size": -1}, "an erased entry needs the length and the sha256"),
            ({"payload": "{}"}, "an erased entry has no payload"),
            ({"salt": "00"}, "an erased entry has no payload"),
        ],
    )
    def test_one_that_was_changed_is_refused_and_leaves_nothing(
        self, lines: list[Line], change: Line, why: str, tmp_path: Path
    ) -> None:
        lines[3].update(change)
        file = tmp_path / "demo.jsonl"
        file.write_bytes(written(lines))
        with stenolog.open(":memory:") as log:
            with pytest.raises(CorruptLogError, match=why):
                import_file(log, file)
            assert log.names() == []

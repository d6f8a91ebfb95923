"""Logs of inspect_ai: made up, as its own package writes them, and hostile archives."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.errors import UnknownFormatError
from stenolog.importers import EXPORTERS, import_file
from stenolog.testing import example_conversation
from tests.transcripts.given import Import, Json

CALL = {"id": "c1", "function": "addition", "arguments": {"x": 1, "y": 2}, "type": "function"}
MESSAGES: list[Json] = [
    {"id": "m1", "role": "system", "content": "Be brief."},
    {"id": "m2", "role": "user", "content": [{"type": "text", "text": "What is 1+2?"}], "source": "input"},
    {"id": "m3", "role": "assistant", "content": "I add.", "tool_calls": [CALL], "model": "m-1"},
    {
        "id": "m4",
        "role": "tool",
        "content": "It is 3",
        "tool_call_id": "c1",
        "function": "addition",
    },
    {"id": "m5", "role": "assistant", "content": "The answer is 3.", "model": "m-1"},
    {"id": "m6", "role": "user", "content": "Thanks."},
]
USAGE = {"input_tokens": 50, "output_tokens": 7, "input_tokens_cache_read": 40}
ASKED = {
    "event": "model",
    "timestamp": "2026-01-02T03:04:06Z",
    "tools": [{"name": "addition", "description": "Adds.", "parameters": {"type": "object"}}],
    "output": {"choices": [{"message": MESSAGES[2], "stop_reason": "tool_calls"}], "usage": USAGE},
}
ABOUT = {"task": "sums", "model": "m-1", "eval_id": "EvalIdOfTheLog", "created": "2026-01-02T03:04:05Z"}


def sample(messages: list[Any] = MESSAGES) -> Json:
    """Return a sample with these messages."""
    return {
        "id": "a", "epoch": 1, "input": "What is 1+2?", "target": "3", "messages": messages,
        "events": [ASKED],
        "attachments": {"d41d": "It is 3"}, "scores": {"match": {"value": "C", "explanation": "Equal."}},
        "started_at": "2026-01-02T03:04:05Z",
    }  # fmt: skip


def document(*samples: Json) -> Json:
    return {"version": 2, "status": "success", "eval": ABOUT, "samples": list(samples)}


def write_json(folder: Path, records: list[Any]) -> Path:
    """Write a log whose sample has these messages."""
    (path := folder / "sums.json").write_text(json.dumps(document(sample(records))))
    return path


def write_archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def archived(path: Path, *samples: Json) -> Path:
    """Write the samples as an archive, as a run that was killed leaves it: without its last header."""
    members = {
        f"samples/{nth}_epoch_1.json": json.dumps(each).encode() for nth, each in enumerate(samples, 1)
    }
    return write_archive(path, {"_journal/start.json": json.dumps({"eval": ABOUT}).encode(), **members})


def test_a_sample_is_a_conversation_with_its_tokens_and_its_scores_as_tags(
    into: Import, tmp_path: Path
) -> None:
    attached = [{**each, "content": "attachment://d41d"} if each["id"] == "m4" else each for each in MESSAGES]
    path = archived(tmp_path / "sums.eval", sample(attached), {**sample(), "id": 2})

    report = import_file(into.log, path)

    assert [one.name for one in report.conversations] == ["sums a 1 EvalIdOf", "sums 2 1 EvalIdOf"]
    events: list[Any] = [entry.event for entry in into.log["sums a 1 EvalIdOf"]]
    answers = [event for event in events if event.kind == "assistant_message"]
    assert [(event.usage.input, event.usage.cache_read) for event in answers[:1]] == [(90, 40)]
    assert [event.text for event in events if event.kind == "tool_result"] == ["It is 3"]
    (note,) = [event for event in events if getattr(event, "tags", ())]
    assert (note.tags, note.in_context, note.text) == (("match=C",), False, "match=C: Equal.")


def test_references_to_an_attachment_do_not_make_a_file_larger_than_its_limit(
    into: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stenolog.contrib.inspect_ai.samples.MOST_ATTACHED", 20)
    asked = [{"id": f"q{nth}", "role": "user", "content": "attachment://d41d"} for nth in range(4)]

    report = import_file(into.log, archived(tmp_path / "sums.eval", sample(asked)))

    texts = [entry.event.text for entry in into.log["sums a 1 EvalIdOf"] if hasattr(entry.event, "text")]
    assert texts[:4] == ["It is 3", "It is 3", "attachment://d41d", "attachment://d41d"]
    assert report.conversations[0].ignored["attachment beyond 64 Mi characters in a sample"] == 2


def bomb(path: Path) -> Path:
    members = {"header.json": b'{"eval": {"task": "x"}}', "samples/1.json": b" " * 80 * 1024 * 1024}
    return write_archive(path, members)


def lying(path: Path) -> Path:
    """Write an archive whose sample is not where its directory says."""
    content = archived(path, sample()).read_bytes()
    at = content.rindex(b"PK\x01\x02")
    path.write_bytes(content[: at + 42] + b"\xff\xff\x00\x00" + content[at + 46 :])
    return path


def broken(path: Path, method: int) -> Path:
    """Write an archive whose sample is damaged where it is compressed."""
    write_archive(
        path,
        {"header.json": b'{"eval": {"task": "x"}}', "samples/1.json": json.dumps(sample()).encode()},
        method,
    )
    content = bytearray(path.read_bytes())
    at = content.index(b"samples/1.json") + len(b"samples/1.json") + 6
    content[at : at + 54] = bytes(byte ^ 0x5A for byte in content[at : at + 54])
    path.write_bytes(content)
    return path


def broken_bzip2(path: Path) -> Path:
    return broken(path, zipfile.ZIP_BZIP2)


def broken_lzma(path: Path) -> Path:
    return broken(path, zipfile.ZIP_LZMA)


def headless(path: Path) -> Path:
    return write_archive(path, {"header.json": b"[1]"})


@pytest.mark.parametrize(
    "write", [bomb, lying, broken_bzip2, broken_lzma, headless], ids=lambda write: write.__name__
)
def test_a_hostile_archive_is_refused_and_nothing_is_imported(write: Any, tmp_path: Path) -> None:
    with stenolog.open(":memory:") as log:
        with pytest.raises(UnknownFormatError):
            import_file(log, write(tmp_path / "sums.eval"))

        assert log.names() == []


def test_another_archive_is_refused_by_its_kind(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "photos.zip", {"a.txt": b"x"})

    with stenolog.open(":memory:") as log, pytest.raises(UnknownFormatError, match="found a ZIP archive"):
        import_file(log, path)


THEIRS = """
import json, sys
from inspect_ai.log import read_eval_log, write_eval_log

log = read_eval_log(sys.argv[1])
write_eval_log(log, sys.argv[2])
(sample,) = log.samples
scores = {name: score.value for name, score in (sample.scores or {}).items()}
print(json.dumps([len(sample.messages), scores]))
"""


@pytest.mark.slow
def test_the_package_itself_reads_what_is_exported_and_what_it_writes_is_imported(tmp_path: Path) -> None:
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "inspect-ai>=0.3.285,<0.4"], check=True)
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.eval"
    write = EXPORTERS["inspect-ai"].write
    assert write is not None

    for given in (None, write_json(tmp_path, MESSAGES)):
        with stenolog.open(":memory:") as log, stenolog.open(":memory:") as other:
            if given is None:
                log["talk"].extend(example_conversation())
            else:
                import_file(log, given)
            (name,) = log.names()
            with ours.open("w") as stream:
                write(log[name], stream, "")
            command = [str(each) for each in (python, "-c", THEIRS, ours, theirs)]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = import_file(other, theirs).conversations

        assert json.loads(told.splitlines()[-1]) == ([16, {}] if given is None else [6, {"match": "C"}])
        assert [(one.failed, one.appended > 6) for one in found] == [("", True)]

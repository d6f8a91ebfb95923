"""Nothing that a person, a model or a tool said in a file is missing from its log.

What was said is collected here from the raw JSON, by a walk that knows nothing of the importers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stenolog.errors import UnknownFormatError
from tests.requests.corpus import TRANSCRIPTS, files
from tests.transcripts.acceptance import Said, held, is_in

HERE = TRANSCRIPTS.is_dir()


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every JSON object of a JSONL file, glued ones apart, each record once."""
    decoder, seen = json.JSONDecoder(), set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        rest = line.strip()
        while rest.startswith("{"):
            try:
                value, end = decoder.raw_decode(rest)
            except ValueError:
                break
            rest = rest[end:].lstrip()
            if value.get("uuid") not in seen:
                seen |= {value["uuid"]} if "uuid" in value else set()
                yield value


def _blocks(content: Any) -> Iterator[Said]:
    blocks: list[dict[str, Any]] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    for block in blocks or []:
        match block.get("type"):
            case "text":
                yield "text", block["text"]
            case "thinking":
                yield "thinking", block["thinking"]
            case "tool_use":
                yield "call", block["id"]
                yield from (
                    ("argument", value) for value in block["input"].values() if isinstance(value, str)
                )
            case "tool_result":
                yield from _blocks(block.get("content"))
            case _:
                pass


def said_in_claude_code(path: Path) -> Iterator[Said]:
    """Yield the messages of a Claude Code session."""
    for record in objects(path):
        inner = record.get("data", {}).get("message", {}) if record.get("type") == "progress" else record
        if inner.get("type") in ("user", "assistant"):
            yield from _blocks(inner.get("message", {}).get("content"))
        if record.get("type") == "queue-operation" and record.get("content"):
            yield "queued", record["content"]


def said_in_codex(path: Path) -> Iterator[Said]:
    """Yield the messages of a Codex rollout, as the API got them."""
    for record in objects(path):
        item = record.get("payload") or {}
        if record.get("type") != "response_item":
            continue
        content = item.get("content")
        yield from (("text", part.get("text", "")) for part in content or [] if isinstance(part, dict))
        yield from (("summary", part["text"]) for part in item.get("summary") or [])
        yield from (
            (key, item[key]) for key in ("call_id", "input", "name") if isinstance(item.get(key), str)
        )
        if isinstance(item.get("arguments"), str):
            yield "arguments", item["arguments"]
        if isinstance(item.get("output"), str):
            yield "output", item["output"]


def said_in_tau_bench(path: Path) -> Iterator[Said]:
    """Yield the messages of the trajectories."""
    for trajectory in json.loads(path.read_text(encoding="utf-8")):
        for message in trajectory["traj"]:
            yield message["role"], message.get("content") or ""
            for call in message.get("tool_calls") or []:
                yield from (("call", call["id"]), ("arguments", call["function"]["arguments"]))


WALKS = {
    "claude_code": said_in_claude_code,
    "claude_code_fixtures": said_in_claude_code,
    "codex": said_in_codex,
    "tau_bench": said_in_tau_bench,
}
FILES = files(*WALKS) if HERE else [Path("absent")]


@pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name[-30:])
def test_all_that_was_said_in_a_file_is_in_its_log(file: Path) -> None:
    said = list(WALKS[file.parent.name](file))
    if not said:
        with suppress(UnknownFormatError):
            assert held(file) == ("", 0)  # a chat of another program in which nobody says anything
        return

    words, calls = held(file)

    assert [(who, what[:200]) for who, what in said if what.strip() and not is_in(what, words)] == []
    assert calls >= len({what for who, what in said if who == "call"})

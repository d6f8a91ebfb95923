"""A session's record with key, lane and time, and the words of a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from stenolog.projections.messages.json_fields import as_dict, as_str, title_of

MAIN = "claude"
SYNTHETIC = "<synthetic>"
"""The model of answers that no model gave."""
AGENT_NOTE = "stenolog-agent-note"
"""The type of the record that a note on a sub-agent becomes; no file has it."""
_ABOUT_EDITOR = re.compile(r"\s*<ide_\w+>")
_SYSTEM = re.compile(
    r"\s*(<(system-reminder|local-command-(stdout|stderr|caveat)|bash-(stdout|stderr)"
    r"|task-notification|agent-notification)>|Caveat: The messages below were generated)"
)


@dataclass(eq=False)
class Line:
    """A record of a conversation. `call` is the id of its sub-agent's call, if named."""

    key: str
    value: dict[str, Any]
    agent: str
    time: datetime
    call: str = ""
    message: dict[str, Any] = field(init=False)
    uuid: str = field(init=False)
    parent: str = field(init=False)

    def __post_init__(self) -> None:
        message, find = self.value.get("message"), self.value.get
        self.message = {"content": message} if isinstance(message, str) else as_dict(message)
        self.uuid = as_str(find("uuid"))
        self.parent = as_str(find("parentUuid")) or as_str(find("logicalParentUuid"))


def is_inserted(line: Line) -> bool:
    """Return whether Claude Code inserted a message, not a person or model."""
    is_synthetic = as_str(line.message.get("model")) == SYNTHETIC
    return is_synthetic or bool(line.value.get("isMeta") or line.value.get("isCompactSummary"))


def by_system(words: str) -> bool:
    """Return whether Claude Code wrote the words, by their first mark."""
    return _SYSTEM.match(words) is not None


def title_of_prompt(content: Iterable[Mapping[str, Any]]) -> str:
    """Return a prompt as title; of a command its name, as typed."""
    said = [as_str(block.get("text")) for block in content]
    words = " ".join(each for each in said if not by_system(each) and not _ABOUT_EDITOR.match(each))
    return title_of(as_typed(words))


def as_typed(words: str) -> str:
    """Return a prompt as typed: of a command, name and arguments."""
    command, arguments = _between(words, "command-name"), _between(words, "command-args")
    return words if command is None else " ".join(filter(None, (command, arguments)))


def _between(words: str, tag: str) -> str | None:
    _, _, behind = words.partition(f"<{tag}>")
    inside, end, _ = behind.partition(f"</{tag}>")
    return inside.strip() if end else None


def plain_text(content: Any) -> str:
    """Return a message's text; empty for several text blocks."""
    if isinstance(content, list) and len(content) == 1:
        return as_str(as_dict(content[0]).get("text"))
    return as_str(content)


def queued_text(record: Mapping[str, Any]) -> str:
    """Return the text of a queue operation."""
    content = record.get("content")
    return content if isinstance(content, str) else plain_text(content)


def typed_by(queued: str) -> Literal["person", "system"]:
    """Return who typed queued text: a person, unless a background task reports."""
    return "system" if by_system(queued) or queued.startswith('{"task_id"') else "person"

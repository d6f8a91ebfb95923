"""Export of a conversation as a chat of NeuroCrew Lab, `chat_<id>.json`.

What was imported from such a file comes out unchanged. New messages have their entry's id in `id`, which a
later import recognises. `roles.yaml` is read as a team file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO, TypeGuard

from stenolog.analysis import context
from stenolog.events import AssistantMessage, Entry, ModeSwitch, UserMessage
from stenolog.importers import Exporter, as_dict

from .files import AGENT, NAMES, THEIRS, role_of

if TYPE_CHECKING:
    from stenolog import Conversation
from dataclasses import replace
from typing import BinaryIO

from stenolog.errors import CallerError
from stenolog.importers import as_list, as_str, yaml_document

from .files import NEUROCREW as CHATS
from .files import PASS

_ROLES = re.compile(rb"^[\s-]*role_name\s*:", re.MULTILINE)
FORMATS = {"gemini": "gemini-cli", "qwen": "qwen-code", "claude": "claude-code", "codex": "codex"}
"""The formats of the programs that mark their answers' ends."""
SILENCE = 3
"""The seconds of silence that end an answer of any other program."""


def is_roles(first: bytes, stream: BinaryIO) -> bool:
    """Return whether a file lists roles with their commands, by its first bytes."""
    return b"cli_command" in first and _ROLES.search(first) is not None


def team_file(stream: BinaryIO) -> str:
    """Return the team of a `roles.yaml` in TOML; empty for a chat.

    Raises `CallerError` for a role without name or command, and as `yaml_document` does.
    """
    first = stream.read(65_536)
    stream.seek(0)
    if not is_roles(first, stream):
        return ""
    document = yaml_document(stream)
    roles = as_list(as_dict(document).get("roles") if isinstance(document, dict) else document)
    return "\n".join(_lines([as_dict(role) for role in roles]))


def _lines(roles: list[dict[str, Any]]) -> Iterator[str]:
    moderators = [_name(role) for role in roles if role.get("is_moderator") is True]
    yield from ("exclusive = true", "", "[turns]", 'rule = "round_robin"', f"pass_token = {_written(PASS)}")
    if moderators:
        yield f"moderator = {_written(moderators)}"
    for role in roles:
        yield from ("", f"[agents.{_written(_name(role))}]", f"model = {_model(role)}")
        for key, field in (("persona_file", "prompt_file"), ("persona", "system_prompt")):
            if words := as_str(role.get(field)):
                yield f"{key} = {_written(words)}"
                break
    yield ""


def _name(role: dict[str, Any]) -> str:
    if name := as_str(role.get("display_name")) or as_str(role.get("role_name")):
        return name
    raise CallerError(f"roles: expected a role_name in each, found the keys {', '.join(map(str, role))}")


def _model(role: dict[str, Any]) -> str:
    command = as_str(role.get("cli_command"))
    if not command.strip():
        raise CallerError(f"roles: {_name(role)}: expected a cli_command, found {command!r:.60}")
    form = FORMATS.get(command.split()[0].rpartition("/")[2])
    how = f"format = {_written(form)}" if form else f'mode = "long-lived", idle_ends = {SILENCE}'
    return f"{{ use = {_written(f'cli:{command}')}, {how} }}"


def _written(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


NEUROCREW = replace(CHATS, is_start=is_roles, team=team_file)


OURS = "neurocrew"
_CHAT = re.compile(r"chat_(-?\d+)")
_OUT = ("reset", "hidden")
"""The rules by which a message is no longer in the room."""


def write(conversation: Conversation, stream: TextIO, agent: str) -> None:
    """Write what persons, the system and agents have said since the last reset."""
    json.dump(document(conversation), stream, ensure_ascii=False, indent=2)
    stream.write("\n")


def document(conversation: Conversation) -> dict[str, Any]:
    """Return the chat: its file's fields, updated, and its messages."""
    entries = [*conversation.entries()]
    about: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry.event, ModeSwitch):
            about |= as_dict(entry.event.meta.get(OURS))
    said = [*messages(entries)]
    number = _CHAT.fullmatch(conversation.name)
    metadata = {
        "chat_id": about.pop("chat_id", int(number[1]) if number else conversation.name),
        "version": "1.0",
        **as_dict(about.pop("metadata", None)),
        "message_count": len(said),
        "last_updated": said[-1].get("timestamp", "") if said else "",
    }
    return {"metadata": metadata, **about, THEIRS: said}


def messages(entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the messages of the room, each in its latest wording."""
    now = context(entries)
    names: dict[str, dict[str, Any]] = {}
    clock = timedelta()
    for entry in entries:
        event, out = entry.event, now.out.get(entry.position, ("", 0))[0]
        if not _is_said(event) or event.replaces is not None or out in _OUT:
            continue
        latest = entries[now.replaced_by.get(entry.position, entry.position) - 1].event
        text = latest.text if isinstance(latest, UserMessage | AssistantMessage) else event.text
        theirs = as_dict(event.meta.get(OURS))
        if isinstance(event, AssistantMessage) and theirs:
            names[event.agent] = {name: theirs[name] for name in NAMES if name in theirs}
        if theirs and event.source is not None:
            clock = _clock(theirs.get("timestamp"), entry.time, clock)
            yield {"role": event.source.role or role_of(theirs), "content": text, **theirs}
            continue
        at = (entry.time + clock).astimezone(UTC).replace(tzinfo=None).isoformat()
        yield {**_author(event, names), "content": text, "timestamp": at, "id": entry.id}


def _clock(stated: object, time: datetime, before: timedelta) -> timedelta:
    """Return a file clock's offset from UTC, by a message without a zone; new ones use it."""
    with suppress(ValueError, TypeError):
        parsed = datetime.fromisoformat(stated)  # type: ignore[arg-type]
        if parsed.tzinfo is None and abs(ahead := parsed - time.replace(tzinfo=None)) < timedelta(hours=15):
            return ahead
    return before


def _is_said(event: object) -> TypeGuard[UserMessage | AssistantMessage]:
    """Return whether the event is a message of the room, not a command, call or note."""
    match event:
        case UserMessage(control=None, in_context=True) | AssistantMessage(purpose="answer", in_context=True):
            return bool(event.text)
        case _:
            return False


def _author(event: UserMessage | AssistantMessage, names: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the speaker's fields; an agent keeps those of the room."""
    if isinstance(event, AssistantMessage) or event.author_kind == AGENT:
        agent = event.agent if isinstance(event, AssistantMessage) else event.author
        model = event.model if isinstance(event, AssistantMessage) else ""
        slug = re.sub(r"\W+", "_", agent.lower()).strip("_")
        own = {"agent_name": model or slug, "role_name": slug, "role_display_name": agent}
        return {"role": AGENT, **(names.get(agent) or own)}
    return {"role": "system" if event.author_kind == "system" else "user"}


TO_NEUROCREW = Exporter("neurocrew", "a NeuroCrew chat", write)

"""Conversations and messages as callers give them: a message is a text, an event, or a list with files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from stenolog.adapters.conversation.aio import AsyncConversation
from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.tools.base import Attachment
from stenolog.adapters.tools.results import media_of, part_of
from stenolog.domain.errors import CallerError
from stenolog.domain.events import UserMessage
from stenolog.domain.parts import FilePart, ImagePart, ProviderPart, TextPart, UserPart

AnyConversation: TypeAlias = Conversation | AsyncConversation
Item: TypeAlias = str | os.PathLike[str] | bytes | Attachment | UserPart
Message: TypeAlias = str | UserMessage | Sequence[Item]
"""A message to a team: a text, a list with files and pictures, or a whole event."""
UNKNOWN = "application/octet-stream"
_EXPECTED = "expected a text, a Path, bytes, an Attachment or a part of stenolog.parts"


async def opened_conversation(conversation: AnyConversation) -> Conversation:
    """Return the conversation whose methods are not awaited."""
    if isinstance(conversation, Conversation):
        return conversation
    if isinstance(conversation, AsyncConversation):
        return await conversation.sync()
    raise CallerError(f'expected a conversation, such as log["demo"], found {conversation!r:.100}')


def words_of(message: Message) -> str:
    """Return what the caller wrote, without the texts of files."""
    match message:
        case str():
            return message
        case UserMessage(text=text):
            return text
        case list() | tuple():
            return "\n".join(item for item in message if isinstance(item, str))
        case _:
            return ""


def message_of(message: Message, put_blob: Callable[[bytes], str]) -> UserMessage:
    """Return the message as an event; `put_blob` stores its files and pictures.

    Raises `CallerError` for an item of another kind, or a file that cannot be read; then nothing is stored.
    """
    if isinstance(message, str | UserMessage):
        return UserMessage(text=message) if isinstance(message, str) else message
    if not isinstance(message, list | tuple) or isinstance(message, Attachment):
        example = '["look", Path("a.png")]'
        raise CallerError(
            f"message: expected a text, a UserMessage or a list such as {example}, found {message!r:.60}"
        )
    if not message:
        raise CallerError("message: expected at least one item, found an empty list")
    items = [_read(item, nth) for nth, item in enumerate(message, 1)]
    return UserMessage(
        parts=[part_of(item, put_blob) if isinstance(item, str | Attachment) else item for item in items]
    )


def _read(item: object, nth: int) -> str | Attachment | UserPart:
    match item:
        case str() | TextPart() | ImagePart() | FilePart() | ProviderPart():
            return item
        case Attachment(content, media_type, name):
            return _content(content, name) if media_type == UNKNOWN else item
        case bytes() | bytearray() | memoryview():
            return _content(bytes(item))
        case os.PathLike():
            return _file(Path(item), nth)
        case _:
            raise CallerError(f"message: item {nth}: {_EXPECTED}, found {item!r:.60}")


def _file(path: Path, nth: int) -> str | Attachment:
    try:
        return _content(path.read_bytes(), path.name)
    except OSError as error:
        found = "none" if isinstance(error, FileNotFoundError) else error.strerror
        raise CallerError(f"message: item {nth}: expected a file at {path}, found {found}") from None


def _content(content: bytes, name: str = "") -> str | Attachment:
    """Return bytes as a picture or a PDF if they begin like one, as text if they are text, else as a file."""
    found = media_of(content)._replace(name=name)
    if found.media_type != UNKNOWN:
        return found
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        import mimetypes  # late: few messages have such files

        guessed = mimetypes.guess_type(name)[0] or UNKNOWN
        # A picture by its name alone would be refused by every provider.
        return found if guessed.startswith("image/") else found._replace(media_type=guessed)
    # Most APIs take no files of text, so its words are part of the message.
    return f"{name}:\n{text}" if name else text

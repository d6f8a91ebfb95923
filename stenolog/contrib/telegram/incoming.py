"""Texts from and for Telegram: updates as entries, Markdown as MarkdownV2.

Code, headings, bold, italic, strikethrough, links, lists and quotes are kept; other marks are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

import telegram
from pydantic import JsonValue
from telegram.constants import ChatType

from stenolog import Conversation
from stenolog.chats import CALL_CODE, Fence, fence_of, utf16_length
from stenolog.events import Origin, UserMessage
from stenolog.parts import FilePart, ImagePart, TextPart, UserPart

SYSTEM = "telegram"
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
LONGEST_NAME = 200
PRESSED = re.compile(rf"(approve|refuse|answer) ({CALL_CODE.pattern})(?: (\d+))?")
"""A pattern for the data of a pressed button."""


class IncomingMedia(NamedTuple):
    """A picture or a document: where to fetch it, how many bytes it has, and what it is."""

    file: str
    size: int
    media_type: str
    name: str = ""

    def part(self, blob: str) -> UserPart:
        """Return it as a part, with its content by the sha256."""
        if self.media_type in PICTURES:
            return ImagePart(media_type=self.media_type, blob=blob)
        return FilePart(name=self.name, media_type=self.media_type, blob=blob)


class IncomingMessage(NamedTuple):
    """A message.

    `strange`: its attachment is neither picture nor document. `edited`: time of the change, in seconds since
    1970; 0: new. `answers`: the message it answers. `moved`: the chat this one became. `topic`: a forum's; 0:
    none. `about`: the code of the call whose question it answers, by reply or button; `press`: the id of the
    button press.
    """

    chat: int
    message: int
    is_private: bool
    is_basic: bool
    author: str
    user: int
    text: str
    media: IncomingMedia | None = None
    strange: bool = False
    edited: int = 0
    answers: telegram.Message | None = None
    moved: int = 0
    topic: int = 0
    about: str = ""
    press: str = ""

    @property
    def position(self) -> str:
        """The message's place in Telegram."""
        return f"{self.chat}/{self.message}"

    def id(self, bot: int) -> str:
        """Return the id of its entry; the same, however often it is delivered."""
        first = f"{SYSTEM}:{bot}:{self.chat}:{self.message}{self.press and f':{self.press}'}"
        if not self.edited:
            return first
        return f"{first}:{self.edited}:{sha256(self.text.encode()).hexdigest()[:8]}"

    def event(self, blob: str, to: tuple[str, ...]) -> UserMessage:
        """Return the message as an event; `blob` is the file that hangs on it."""
        parts: list[UserPart] = [TextPart(text=self.text)] if self.text else []
        if self.media:
            parts.append(self.media.part(blob))
        meta: dict[str, JsonValue] = {"user": self.user}
        if self.topic:
            meta["topic"] = self.topic
        return UserMessage(
            parts=parts,
            author=self.author,
            to=to,
            source=Origin(system=SYSTEM, id=self.position),
            meta={SYSTEM: meta},
        )


def parse_update(update: telegram.Update) -> IncomingMessage | None:
    """Return the message of an update; None if it has none, such as of a person who joins."""
    if update.callback_query:
        return _pressed(update.callback_query)
    message = update.message or update.edited_message
    if message is None or (message.from_user and message.from_user.is_bot and not message.sender_chat):
        return None
    media, strange = _media(message), False
    text = message.text or message.caption or ""
    if media is None and message.effective_attachment:
        strange = True
    elif media is None and not text.strip() and not message.migrate_to_chat_id:
        return None
    edited = message.edit_date if update.edited_message else None
    return IncomingMessage(
        chat=message.chat.id,
        message=message.message_id,
        is_private=message.chat.type == ChatType.PRIVATE,
        is_basic=message.chat.type == ChatType.GROUP,
        author=_author(message),
        user=message.from_user.id if message.from_user else 0,
        text=text,
        media=media,
        strange=strange,
        edited=int(edited.timestamp()) if edited else 0,
        answers=message.reply_to_message,
        moved=message.migrate_to_chat_id or 0,
        topic=_topic(message),
        about=_about(message.reply_to_message),
    )


def _pressed(press: telegram.CallbackQuery) -> IncomingMessage | None:
    """Return the command that a button below a question of ours gives; None for any other."""
    message, found = press.message, PRESSED.fullmatch(press.data or "")
    if found is None or message is None or press.from_user.is_bot:
        return None
    return IncomingMessage(
        chat=message.chat.id,
        message=message.message_id,
        is_private=message.chat.type == ChatType.PRIVATE,
        is_basic=message.chat.type == ChatType.GROUP,
        author=press.from_user.full_name,
        user=press.from_user.id,
        text=f"/{found[1]} {found[3] or ''}".strip(),
        topic=_topic(message) if isinstance(message, telegram.Message) else 0,
        about=found[2],
        press=press.id,
    )


def _about(message: telegram.Message | None) -> str:
    """Return the code of the call that a message asks about, by its buttons: anyone can write the words."""
    author = message.from_user if message else None
    if message is None or author is None or not author.is_bot or message.reply_markup is None:
        return ""
    rows = message.reply_markup.inline_keyboard
    found = (PRESSED.fullmatch(str(button.callback_data)) for row in rows for button in row)
    return next((match[2] for match in found if match), "")


def _topic(message: telegram.Message) -> int:
    return (message.message_thread_id or 0) if message.is_topic_message else 0


def topic_of(conversation: Conversation, position: int) -> int:
    """Return the topic of the message that an entry comes from; 0: none."""
    while position:
        event = conversation.entry(position).event
        if isinstance(event, UserMessage) and not event.cause:
            origin = event.meta.get(SYSTEM)
            topic = origin.get("topic") if isinstance(origin, dict) else 0
            return topic if isinstance(topic, int) else 0
        position = min(getattr(event, "cause", None) or position, position - 1)
    return 0


def _author(message: telegram.Message) -> str:
    if message.sender_chat:
        return message.sender_chat.effective_name or ""
    return message.from_user.full_name if message.from_user else ""


def _media(message: telegram.Message) -> IncomingMedia | None:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        return IncomingMedia(largest.file_id, largest.file_size or 0, "image/jpeg")
    document = message.document
    if document is None or message.animation:
        return None
    name = (document.file_name or "")[:LONGEST_NAME]
    return IncomingMedia(document.file_id, document.file_size or 0, document.mime_type or _UNKNOWN, name)


_UNKNOWN = "application/octet-stream"


def answered(message: telegram.Message, roles: Mapping[int, str], names: Mapping[str, str]) -> str:
    """Return the agent whose message is answered: by its heading, else its bot; empty: none.

    `roles` are agents by their bots' ids, `names` by the heading of their answers.
    """
    author = message.from_user
    if author is None or author.id not in roles:
        return ""
    return names.get(unmarked((message.text or "").partition("\n")[0])) or roles[author.id]


def unmarked(name: str) -> str:
    """Return a name without the signs that Markdown may drop."""
    return SPECIAL.sub("", name).strip()


MARKS = "_*[]()~`>#+-=|{}.!\\"
SPECIAL = re.compile(rf"[{re.escape(MARKS)}]")
IN_CODE = re.compile(r"[`\\]")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*?)(?:[ \t]+#+)?[ \t]*")
BULLET = re.compile(r"([ \t]*)[-*+] (?=.*\S)")
QUOTE = re.compile(r"> ?")
INLINE = re.compile(
    r"(?P<ticks>(?<!`)`+(?!`))(?P<code>[^\n]*?\S[^\n]*?)(?<!`)(?P=ticks)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|\[(?P<words>[^\[\]\n]*[^\[\]\s][^\[\]\n]*)\]\((?P<url>https?://[^\s()<>\\`]+)\)"
    r"|\*\*(?=\S)(?P<bold>[^*`\n]*[^*`\s])\*\*"
    r"|(?<!\w)__(?=\S)(?P<strong>[^_`\n]*[^_`\s])__(?!\w)"
    r"|~~(?=\S)(?P<struck>[^~`\n]*[^~`\s])~~"
    r"|(?<![\w*])\*(?=\S)(?P<italic>[^*`\n]*[^*`\s])\*(?![\w*])"
    r"|(?<!\w)_(?=\S)(?P<slanted>[^_`\n]*[^_`\s])_(?!\w)"
)
AROUND = {"bold": "*", "strong": "*", "struck": "~", "italic": "_", "slanted": "_"}


def weigh(text: str) -> int:
    """Return a rendered text's largest weight in UTF-16 code units, with each mark escaped."""
    return utf16_length(text) + len(SPECIAL.findall(text))


def escaped(text: str) -> str:
    """Return the text with all Telegram marks escaped."""
    return SPECIAL.sub(r"\\\g<0>", text)


def rendered(text: str) -> str:
    """Return Markdown as MarkdownV2. An unclosed code block ends with the text."""
    rows, fence = [], None
    for line in text.split("\n"):
        found = fence_of(line)
        if fence is None:
            fence = found
            rows.append(_opening(found) if found else _line(line))
        elif found and found.ends(fence):
            fence = None
            rows.append("```")
        else:
            rows.append(_code(line))
    return "\n".join(rows if fence is None else [*rows, "```"])


def _opening(fence: Fence) -> str:
    return f"```{_code(fence.language.partition(' ')[0])}"


def _code(text: str) -> str:
    return IN_CODE.sub(r"\\\g<0>", text)


def _line(line: str) -> str:
    if heading := HEADING.fullmatch(line):
        return f"*{escaped(heading[1].replace('**', ''))}*"
    if quote := QUOTE.match(line):
        return f">{_inline(line[quote.end() :])}"
    if bullet := BULLET.match(line):
        return f"{bullet[1]}• {_inline(line[bullet.end() :])}"
    return _inline(line)


def _inline(text: str) -> str:
    made, end = [], 0
    for found in INLINE.finditer(text):
        made += [escaped(text[end : found.start()]), _marked(found)]
        end = found.end()
    return "".join([*made, escaped(text[end:])])


def _marked(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "code":
            return f"`{_code(found['code'])}`"
        case "escaped":
            return escaped(found["escaped"])
        case "url":
            return f"[{escaped(found['words'])}]({found['url']})"
        case str(name):
            return f"{AROUND[name]}{escaped(found[name])}{AROUND[name]}"
        case None:  # pragma: no cover - every alternative has a name
            return escaped(found[0])

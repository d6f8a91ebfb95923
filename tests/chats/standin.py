"""A stand-in for Telegram's Bot API: a real server on this machine, whose chats and troubles a test owns.

It reads MarkdownV2 as strictly as Telegram does, counts in UTF-16 code units, keeps updates until they are
confirmed, and records what was sent.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs

from stenolog.chats import utf16_length

from .markdown_v2 import CannotParseError, read

TOKEN = "123456:AAH-secret-of-the-bot"
USER = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
Json: TypeAlias = dict[str, Any]


class Sent(NamedTuple):
    """A message that arrived.

    It has the bot, the chat, the text as people read it, the raw text, its topic, its id, and its buttons.
    """

    bot: int
    chat: int
    text: str
    raw: str
    mode: str
    topic: int = 0
    message: int = 0
    markup: str = ""

    @property
    def buttons(self) -> dict[str, str]:
        """What each button below it says when it is pressed."""
        rows = json.loads(self.markup)["inline_keyboard"] if self.markup else []
        return {button["text"]: button["callback_data"] for row in rows for button in row}

    @property
    def seen(self) -> Json:
        """It as an update shows it."""
        chat = {"id": self.chat, "type": "private" if self.chat > 0 else "supergroup"}
        bot = {"id": self.bot, "is_bot": True, "first_name": "Bot"}
        markup = {"reply_markup": json.loads(self.markup)} if self.markup else {}
        return {"message_id": self.message, "date": 1, "chat": chat, "from": bot, "text": self.text, **markup}


class Answer(NamedTuple):
    """What a method answers in the place of its own answer; `drops`: it says nothing and hangs up.

    `does`: the method has been done all the same. `after`: so many seconds later.
    """

    status: int = 200
    description: str = ""
    parameters: Json | None = None
    drops: bool = False
    does: bool = False
    after: float = 0.0


FLOOD = Answer(429, "Too Many Requests: retry after 0.05", {"retry_after": 0.05})
KICKED = Answer(403, "Forbidden: bot was kicked from the group chat")
BROKEN = Answer(502, "Bad Gateway")
HANGS_UP = Answer(drops=True)


class StandIn:
    """The server. `url` is its address; `say` puts a message into a chat, `sent` are those of the bots."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.actions: list[tuple[int, int]] = []
        self.edits: list[tuple[int, str]] = []
        """The messages that were edited, with their new texts."""
        self.troubles: dict[str, deque[Answer]] = defaultdict(deque)
        self.closed: dict[tuple[int, int], Answer] = {}
        """What a bot is told in a chat, whatever it sends there."""
        self.topics: set[int] = {0}
        """Those of the forums, the general one too."""
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        """The methods that were called, in order."""
        self.watch: Callable[[str, str], None] = lambda method, moment: None
        """Called "before" a method is done and "after" it, before it is answered."""
        self.changed = threading.Condition()
        self._updates: dict[int, list[Json]] = defaultdict(list)
        self._next = 1
        self._messages = 0
        self._is_open = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.changed:
            self._is_open = False
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def texts(self, chat: int | None = None) -> list[str]:
        """Return the texts as people read them, in order."""
        return [sent.text for sent in self.sent if chat in (None, sent.chat)]

    def say(self, text: str = "", chat: int = 1, bots: tuple[int, ...] = (123456,), **fields: Any) -> int:
        """Put a message into a chat, for these bots; its id. An `edit` of one keeps that one's id."""
        with self.changed:
            edit = fields.pop("edit", 0)
            self._messages += not edit
            id = edit or self._messages
            kind = "private" if chat > 0 else "supergroup"
            message = {"message_id": id, "date": 1_700_000_000 + id, "chat": {"id": chat, "type": kind}}
            message |= {"from": fields.pop("sender", USER), **({"text": text} if text else {}), **fields}
            message |= {"edit_date": 1_700_000_100 + self._next} if edit else {}
            for bot in bots:
                self.push(bot, {"edited_message" if edit else "message": message})
            return id

    def press(self, sent: Sent, button: str, id: str = "p1") -> None:
        """Press a button below a message."""
        data = sent.buttons[button]
        press = {"id": id, "from": USER, "chat_instance": "1", "message": sent.seen, "data": data}
        self.push(sent.bot, {"callback_query": press})

    def push(self, bot: int, update: Json) -> None:
        """Tell a bot something."""
        with self.changed:
            self._updates[bot].append({"update_id": self._next, **update})
            self._next += 1
            self.changed.notify_all()

    def unconfirmed(self, bot: int = 123456) -> int:
        """Return the number of updates that a bot has not confirmed."""
        with self.changed:
            return len(self._updates[bot])

    def wait(self, count: int, seconds: float = 20.0) -> list[str]:
        """Return the texts, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.sent) >= count, seconds), self.texts()
            return self.texts()

    # The methods.

    def do(self, bot: int, method: str, given: Json) -> Any:
        """Return the result of a method. Raises `RefusedError`."""
        match method:
            case "getMe":
                return {"id": bot, "is_bot": True, "first_name": "Bot", "username": f"bot{bot}"}
            case "getUpdates":
                return self._get_updates(bot, given)
            case "sendMessage":
                return self._send(bot, given)
            case "editMessageText":
                self.edits.append((int(given["message_id"]), str(given["text"])))
                return self._seen(given)
            case "answerCallbackQuery":
                return True
            case "sendChatAction":
                self.actions.append((bot, int(given["chat_id"])))
                return True
            case "getFile":
                return {"file_id": given["file_id"], "file_unique_id": "u", "file_path": given["file_id"]}
            case _:
                raise RefusedError(Answer(404, "Not Found"))

    def _seen(self, given: Json) -> Json:
        return {"message_id": int(given["message_id"]), "date": 1, "chat": {"id": 1, "type": "private"}}

    def _get_updates(self, bot: int, given: Json) -> list[Json]:
        first, limit = int(given.get("offset", 0)), int(given.get("limit", 100))
        end = time.monotonic() + float(given.get("timeout", 0))
        with self.changed:
            self._updates[bot] = [one for one in self._updates[bot] if one["update_id"] >= first]
            while not self._updates[bot] and self._is_open and (left := end - time.monotonic()) > 0:
                self.changed.wait(left)
            return self._updates[bot][:limit]

    def _send(self, bot: int, given: Json) -> Json:
        chat, raw, mode = int(given["chat_id"]), str(given["text"]), str(given.get("parse_mode", ""))
        if trouble := self.closed.get((bot, chat)):
            raise RefusedError(trouble)
        try:
            text = read(raw) if mode == "MarkdownV2" else raw
        except CannotParseError as error:
            raise RefusedError(Answer(400, f"Bad Request: can't parse entities: {error}")) from None
        topic = int(given.get("message_thread_id", 0))
        if topic not in self.topics:
            raise RefusedError(Answer(400, "Bad Request: message thread not found"))
        if utf16_length(text) > 4096:
            raise RefusedError(Answer(400, "Bad Request: message is too long"))
        if not text.strip():
            raise RefusedError(Answer(400, "Bad Request: message text is empty"))
        with self.changed:
            self._messages += 1
            markup = str(given.get("reply_markup", ""))
            self.sent.append(Sent(bot, chat, text, raw, mode, topic, self._messages, markup))
            self.changed.notify_all()
            return {"message_id": self._messages, "date": 1, "chat": {"id": chat, "type": "private"}}


class RefusedError(Exception):
    """A method says no."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.description)
        self.answer = answer


def _handler(standin: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an answer in two pieces waits for an ACK that comes late

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode()
            if len(body.encode()) < length:  # whoever asks was killed while he did
                self.close_connection = True
                return None
            given = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
            bot, method = self.path.removeprefix("/bot").split("/", 1)
            standin.asked.append(method)
            trouble = standin.troubles[method].popleft() if standin.troubles[method] else None
            if trouble:
                time.sleep(trouble.after)
            if trouble and (trouble.drops or trouble.status != 200) and not trouble.does:
                return self._refuse(trouble)
            try:
                standin.watch(method, "before")
                result = standin.do(int(bot.partition(":")[0]), method, given)
                standin.watch(method, "after")
            except RefusedError as error:
                return self._refuse(error.answer)
            if trouble and trouble.does:
                return self._refuse(trouble)
            return self._answer(200, {"ok": True, "result": result})

        def do_GET(self) -> None:
            self._raw(200, standin.files[self.path.split("/", 3)[3]])

        def _refuse(self, answer: Answer) -> None:
            if answer.drops:
                self.close_connection = True
                self.connection.close()
                return
            told: Json = {"ok": False, "error_code": answer.status, "description": answer.description}
            self._answer(
                answer.status, told | ({"parameters": answer.parameters} if answer.parameters else {})
            )

        def _answer(self, status: int, told: Json) -> None:
            self._raw(status, json.dumps(told).encode())

        def _raw(self, status: int, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # whoever asked was killed
                self.close_connection = True

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the same, or it was we who hung up
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler

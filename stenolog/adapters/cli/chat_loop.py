"""Read a message, let the agents work, ask for approvals, read the next."""

from __future__ import annotations

from stenolog.domain.errors import StenologError

from . import chat_commands
from .chat_input import message
from .chat_session import Chat
from .chat_status import last_exchange
from .chat_words import minute
from .exits import Terminated
from .position_argument import backwards
from .words import counted

PROMPT, MORE = "> ", "… "
ONCE_MORE = "Ctrl-C once more ends; so does Ctrl-D"


def loop(chat: Chat) -> None:
    """Talk until the person ends it. Raises KeyboardInterrupt where that was by Ctrl-C."""
    _greet(chat)
    pressed = False
    while True:
        try:
            typed = message(chat.lines, PROMPT, MORE)
            pressed = False
            if typed is None:
                return
            _take(chat, typed)
        except chat_commands.Quit:
            return
        except Terminated:
            raise
        except KeyboardInterrupt:
            if pressed or not chat.lines.asks or chat.desk.work.stopped:
                raise
            pressed = True
            print()
            chat.note(ONCE_MORE)


def _take(chat: Chat, typed: str) -> None:
    """A message, or a command. At a terminal a mistake is said, and the conversation goes on."""
    try:
        if typed.startswith("/") and not typed.startswith("//"):
            chat_commands.call(chat, typed[1:])
        elif typed.strip():
            chat.say(typed.removeprefix("/") if typed.startswith("//") else typed, to=chat.to)
    except (StenologError, OSError) as error:
        if not chat.lines.asks:
            raise
        chat.paper.text(f"✗ {error}", "red")


def _greet(chat: Chat) -> None:
    """Say where the conversation stands."""
    if chat.paper.live:
        names = ", ".join(
            f"{name} ({agent.llm.name})" if agent.llm else name for name, agent in chat.team.agents.items()
        )
        head = chat.conversation.position
        last = next(backwards(chat.conversation, head), None)
        since = f"{counted(head, 'entry', 'entries')}, the last of {minute(last.time)}" if last else "new"
        chat.paper.text(f"{chat.conversation.name} · {since} · /help · {names}", "dim")
        for said in last_exchange(chat.conversation):
            chat.paper.text(said, "dim", indent="  ")
    for words in chat.desk.status():
        chat.paper.text(f"! {words}", "yellow")

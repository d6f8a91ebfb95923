"""A conversation at the terminal: read a message, let the agents work, ask for approvals, read the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stenolog.adapters.conversation import Conversation
from stenolog.adapters.engine.team import Team
from stenolog.domain.errors import StenologError
from stenolog.domain.events import ModeSwitch

from . import chat_commands
from .chat_input import message
from .chat_status import last_exchange
from .chat_words import minute
from .exits import Terminated
from .position_argument import backwards
from .run_session import RunSession
from .words import counted

PROMPT, MORE = "> ", "… "
ONCE_MORE = "Ctrl-C once more ends; so does Ctrl-D"


class Chat:
    """One conversation with a team, at a terminal or over a pipe."""

    def __init__(self, desk: RunSession, to: Collection[str] = ()) -> None:
        self.desk = desk
        self.paper, self.lines = desk.paper, desk.lines
        self.to = to

    @property
    def team(self) -> Team:
        """Who takes part."""
        return self.desk.team

    @property
    def conversation(self) -> Conversation:
        """The conversation."""
        return self.desk.conversation

    def loop(self) -> None:
        """Until the person ends it. Raises KeyboardInterrupt where that was by Ctrl-C."""
        self._greet()
        pressed = False
        while True:
            try:
                typed = message(self.lines, PROMPT, MORE)
                pressed = False
                if typed is None:
                    return
                self._take(typed)
            except chat_commands.Quit:
                return
            except Terminated:
                raise
            except KeyboardInterrupt:
                if pressed or not self.lines.asks or self.desk.work.stopped:
                    raise
                pressed = True
                print()
                self.note(ONCE_MORE)

    def _take(self, typed: str) -> None:
        """A message, or a command. At a terminal a mistake is said, and the conversation goes on."""
        try:
            if typed.startswith("/") and not typed.startswith("//"):
                chat_commands.call(self, typed[1:])
            elif typed.strip():
                self.say(typed.removeprefix("/") if typed.startswith("//") else typed, to=self.to)
        except (StenologError, OSError) as error:
            if not self.lines.asks:
                raise
            self.paper.text(f"✗ {error}", "red")

    def say(self, text: str, to: Iterable[str] = ()) -> None:
        """Say something, and let the agents work."""
        self.desk.go(text, to)

    def submit(self, switch: ModeSwitch, words: str = "") -> None:
        """Change a setting, and show it, in these words if there are any."""
        self.conversation.submit(switch)
        self.desk.watching.catch_up(words)

    def note(self, words: str) -> None:
        """A word to the person."""
        self.paper.line((words, "dim"))

    def _greet(self) -> None:
        """Say where the conversation stands."""
        if self.paper.live:
            names = ", ".join(
                f"{name} ({agent.llm.name})" if agent.llm else name
                for name, agent in self.team.agents.items()
            )
            head = self.conversation.position
            last = next(backwards(self.conversation, head), None)
            since = f"{counted(head, 'entry', 'entries')}, the last of {minute(last.time)}" if last else "new"
            self.paper.text(f"{self.conversation.name} · {since} · /help · {names}", "dim")
            for said in last_exchange(self.conversation):
                self.paper.text(said, "dim", indent="  ")
        for words in self.desk.status():
            self.paper.text(f"! {words}", "yellow")

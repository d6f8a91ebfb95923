"""A conversation with a team at a terminal or over a pipe: what is at hand while it lasts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stenolog.adapters.engine.team import Team
from stenolog.adapters.log import Conversation
from stenolog.domain.events import ModeSwitch

from .run_session import RunSession


class Chat:
    """One conversation with a team, at a terminal or over a pipe."""

    def __init__(self, desk: RunSession, to: Collection[str] = ()) -> None:
        self.desk = desk
        self.paper, self.lines = desk.paper, desk.lines
        self.to = to

    @property
    def team(self) -> Team:
        """The team that takes part."""
        return self.desk.team

    @property
    def conversation(self) -> Conversation:
        """The conversation."""
        return self.desk.conversation

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

"""The acts of the story: words of the user and tasks of the workflow in turn, each in its mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stenolog import Conversation, Entry, ModeSwitch, UserMessage
from stenolog.events import WorkflowRun

DIRECTIVE = "RUN: mend the date parser, and prove it."
NODES = {
    "reproduce": "NODE: make the failure show itself.",
    "mend": "NODE: change the parser, nothing else.",
    "prove": "NODE: run the tests of the dates.",
}


class Act(NamedTuple):
    """Something that is said, in a mode. `id` is that of its entry: it is said once, whoever starts again."""

    id: str
    mode: str
    words: str
    run: WorkflowRun | None = None
    begins: bool = True
    """Whether the mode, or the node of the run, is another than before."""
    restarts: bool = False
    """Whether the program starts itself anew in the middle of it."""

    @property
    def message(self) -> UserMessage:
        """The user's words, or the workflow's."""
        if self.run is None:
            return UserMessage(text=self.words)
        return UserMessage(text=self.words, author="workflow", author_kind="schedule")

    def prepare(self, conversation: Conversation) -> Iterator[Entry]:
        """Switch the mode; the history stays. An entry that is there already is not written again."""
        position, switch = conversation.position, ModeSwitch(mode=self.mode, active_run=self.run)
        if self.begins:
            conversation.append(switch, id=f"{self.id}-mode", expected=position)
        return conversation.entries(after=position)


def _node(number: int, name: str, *, restarts: bool = False) -> Act:
    step = f"Step {number} of {len(NODES)}."
    run = WorkflowRun(id="run-1", directive=DIRECTIVE, node=name, brief=NODES[name], context=step)
    return Act(f"node-{name}", "run", f"Begin: {name}.", run, restarts=restarts)


ACTS = (
    Act("ask", "chat", "Our date parser reads 23:00 as 00:00. Where would you look?"),
    Act("why", "chat", "Why there?", begins=False),
    Act("look", "agent", "Read the parser, and run all the tests."),
    Act("go-on", "agent", "continue", begins=False),
    *(_node(number, name, restarts=name == "mend") for number, name in enumerate(NODES, 1)),
    Act("end", "chat", "What have we done?"),
)

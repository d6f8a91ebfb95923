"""The models without a key: each answers from what it is sent alone, so it may be asked again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from stenolog import ToolCall
from stenolog.models import Model, ModelRequest, Scripted

from ..pace import PAUSE_SECONDS

Part: TypeAlias = tuple[str, str | ToolCall]


def scripted(part: Sequence[Part]) -> Model:
    """Return a model that gives the last answer in its part whose cue it was sent."""

    def answer(prompt: ModelRequest) -> str | ToolCall:
        sent = "\n".join(str(message.get("content") or "") for message in prompt.body["messages"])
        return [reply for cue, reply in part if cue in sent][-1]

    return Scripted(answer, endless=True, pause=PAUSE_SECONDS)


def hand_over(number: int, phase: str, summary: str) -> ToolCall:
    """Return the calls by which the project manager enters a phase."""
    arguments = json.dumps({"phase": phase, "summary": summary})
    return ToolCall(id=f"c{number}", name="hand_over", arguments=arguments)


MANAGER: Sequence[Part] = (
    ("opening hours", hand_over(1, "plan", "Ann wants a page with the bakery's opening hours.")),
    ("in phase plan", "@planner, which steps does it take?"),
    ("Plan:", hand_over(2, "execute", "One page, hours.html. On Mondays the bakery is closed.")),
    ("in phase execute", "@executor, Build hours.html. @tester, what will you test?"),
    ("I shall test", hand_over(3, "review", "The executor has built it; nobody has read it yet.")),
    ("in phase review", "@reviewer, read it, please."),
    ("no title", hand_over(4, "mend", "The reviewer misses a heading, and nothing else.")),
    ("in phase mend", "@executor, put in the heading that the reviewer misses."),
    ("Mended:", hand_over(5, "verify", "It is mended.")),
    ("in phase verify", "@tester, now test it."),
    ("All tests", "Done: hours.html is ready, Ann."),
)
PARTS: dict[str, Sequence[Part]] = {
    "project-manager": MANAGER,
    "planner": [("which steps", "Plan: 1. hours.html with a table. 2. A test that Mondays are closed.")],
    "tester": [("will you test", "I shall test Mondays."), ("now test", "All tests pass.")],
    "reviewer": [
        ("read it", "The table is right. It has no title to be read by."),
        ("is it good", "Yes: the heading is there, and the tests pass."),
        ("what became", "The menu: it was built, and is tested."),
    ],
}

"""Databases that the tests in a browser look at."""

from __future__ import annotations

from pathlib import Path

import stenolog
from stenolog import ModeSwitch, UserMessage
from stenolog.testing import example_conversation


def example(db: Path) -> None:
    """Write the example conversation, a fork of it, and another conversation."""
    with stenolog.open(db) as log:
        demo = log["demo"]
        demo.extend(example_conversation(), expected=0)
        fork = demo.fork(12, "fork")
        fork.append(ModeSwitch(title="A fork"), expected=fork.position)
        fork.append(UserMessage("And in the fork?"))
        log["other"].append(UserMessage("What is new?"))

"""A program that is killed: it asks a graph some questions, and goes on from the file when started again.

python -m tests.frameworks.langgraph_killed conversation.db
"""

from __future__ import annotations

import sys
import time
from typing import Any

from langchain_core.messages import HumanMessage

import stenolog
from stenolog.contrib.langgraph import LangGraphSaver
from tests.frameworks.langgraph_graphs import Talk, model, talking

TURNS = 6
CONFIG: Any = {"configurable": {"thread_id": "talk"}}


def slow(state: Talk) -> dict[str, Any]:
    time.sleep(0.03)
    return model(state)


def main(path: str) -> None:
    with stenolog.open(path) as log:
        app = talking(LangGraphSaver(log), slow)
        for turn in range(TURNS):
            asked = {message.id for message in app.get_state(CONFIG).values.get("messages", ())}
            question = HumanMessage(f"Where is {turn}?", id=f"q{turn}")
            app.invoke(None if question.id in asked else {"messages": [question]}, CONFIG, durability="sync")


if __name__ == "__main__":
    main(sys.argv[1])

"""The team that the workers run: one agent, and a tool that a person has to approve."""

from __future__ import annotations

import os

from stenolog import Agent, Team, ToolCall
from stenolog.models import Model, ModelRequest, Scripted, model_from_string
from stenolog.tools import tool


@tool(approval=True)
def deploy(what: str) -> str:
    """Deploy something."""
    return f"{what} is deployed"


def team() -> Team:
    """Return the team; with the environment variable MODEL it asks a real one, such as openai:gpt-5.2."""
    return Team(
        [Agent("helper", llm=model(), tools=[deploy], persona="You help. Deploy what you are asked to.")]
    )


def model() -> Model:
    """Return the model: without a key one that answers by a script, some words at a time."""
    if name := os.environ.get("MODEL"):
        return model_from_string(name)
    return Scripted(answer, endless=True, piece=4, pause=float(os.environ.get("PAUSE", "0.03")))


def answer(prompt: ModelRequest) -> object:
    """Return the answer to the last message alone, so that it is the same after a crash."""
    messages = prompt.body["messages"]
    words = str(messages[-1].get("content") or "")
    if messages[-1]["role"] == "tool":
        return f"Done: {words}."
    if "deploy" in words:
        return [
            "I ask you first. ",
            ToolCall(id=f"c{len(messages)}", name="deploy", arguments='{"what": "it"}'),
        ]
    return f"You said: {words}. A worker streams this answer, and any web process shows it as it comes."

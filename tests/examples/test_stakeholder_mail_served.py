"""The workflow of parallel mails with the models of a server, through OpenAI's own SDK."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from examples.stakeholder_mail.crew import ORCHESTRATOR, PLANNER, REVIEWER, WRITER
from examples.stakeholder_mail.script import reply
from examples.stakeholder_mail.workflow import TALK, scores
from stenolog.events import Usage
from stenolog.models import ModelRequest, ModelResponse
from stenolog.parts import TextPart
from tests.examples.harness import outcome, said
from tests.llms import wire_openai_chat
from tests.llms.server import Received, Reply, Server

NAME = "stakeholder_mail"
AGENTS = {
    ORCHESTRATOR: "orchestrator",
    PLANNER: "task_planner",
    WRITER: "email_writer",
    REVIEWER: "reviewer",
}


def answer(request: Received) -> Reply:
    """Return what the scripted model says to such a body; its persona says which agent asks."""
    agent = AGENTS[request.body["messages"][0]["content"]]
    text = reply(ModelRequest(body=request.body, key="", lane=agent, conversation=TALK))
    response = ModelResponse(
        (TextPart(text),), model=request.body["model"], finish_reason="stop", usage=Usage(input=9, output=3)
    )
    wire: Any = wire_openai_chat
    return Reply(wire.frames(response))


@pytest.mark.slow
def test_a_server_is_sent_the_flow_and_the_mails_are_those_of_the_scripted_models(tmp_path: Path) -> None:
    importlib.import_module("openai")
    with Server(answer) as server:
        said(NAME, tmp_path, "--model", f"{server.url}/v1#gpt-5.2")
        bodies = [request.body for request in server.received]
    (tmp_path / "scripted").mkdir()
    said(NAME, tmp_path / "scripted")

    assert outcome(NAME, tmp_path / f"{NAME}.db") == outcome(NAME, tmp_path / "scripted" / f"{NAME}.db")
    with stenolog.open(tmp_path / f"{NAME}.db") as log:
        assert len(scores(log[TALK])) == 8
    forms = {AGENTS[body["messages"][0]["content"]]: body.get("response_format") for body in bodies}
    assert [agent for agent, form in forms.items() if form] == ["task_planner", "reviewer"]
    writers = [body for body in bodies if body["messages"][0]["content"] == WRITER]
    # Eight with the conversation and one refined, two made anew, and eight with the brief alone.
    assert len(writers) == 8 + 1 + 2 + 8
    assert sum("Stakeholders:" in json.dumps(body) for body in writers) == 11

"""TENEX's stored conversations: sessions of agents, processed messages, and transitions of phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog.context import SinceLastTurn
from stenolog.importers import import_files
from tests.transcripts.given import Import
from tests.transcripts.signing import NOON, Json, bot, event, profile

ROOT = event("ann", "Build it.", kind=11, to="pm")
HANDED = event("pm", "Go.", ["llm-model", "m-1"], at=2, under=ROOT["id"], to="coder")
BUILT = event("coder", "Built.", at=4, under=ROOT["id"], to="pm")
THANKS = event("ann", "Thanks.", at=6, under=ROOT["id"], to="coder")
PEOPLE = [bot("pm"), bot("coder"), profile("ann")]


def stored(*history: Json, **fields: Any) -> bytes:
    """Return the file of a conversation; profiles stand first in its history."""
    return json.dumps({"id": ROOT["id"], "title": "T", "history": [*PEOPLE, *history], **fields}).encode()


def state(index: int, session: str = "s-9") -> Json:
    """Return the states of one agent that has processed so many messages behind the profiles."""
    coder = {"lastProcessedMessageIndex": len(PEOPLE) + index, "claudeSessionId": session}
    return {"coder": coder}


def transition(at: float, to: str, **fields: Any) -> Json:
    told = {"from": "chat", "to": to, "timestamp": at, "agentName": "pm", "message": "Go on."}
    return {**told, **fields}


def sent(into: Import) -> list[str]:
    return [
        each["content"]
        for each in into.conversation.request("coder", policy=SinceLastTurn()).body["messages"]
    ]


def test_an_agent_that_has_not_processed_all_before_its_answer_begins_a_session_and_is_sent_all(
    into: Import,
) -> None:
    meanwhile = event("ann", "In blue.", at=3, under=ROOT["id"], to="pm")
    into.file(stored(ROOT, HANDED, meanwhile, BUILT, THANKS, agentStates=state(2)))

    assert into.conversation.state().lane("coder").session == ""
    assert any("In blue." in words for words in sent(into))
    assert sum(into.report.conversations[0].decisions.values()) == 1


def test_a_conversation_that_has_grown_gains_its_new_transitions_alone(into: Import) -> None:
    first, second = transition(NOON + 3, "execute"), transition(NOON + 5, "verify")
    into.file(stored(ROOT, HANDED, BUILT, phaseTransitions=[first], agentStates=state(2)))
    before = into.conversation.position

    into.file(stored(ROOT, HANDED, BUILT, THANKS, phaseTransitions=[first, second], agentStates=state(2)))

    assert into.conversation.position == before + 2
    assert into.conversation.settings().mode == "verify"
    into.file(stored(ROOT, HANDED, BUILT, THANKS, phaseTransitions=[first, second], agentStates=state(2)))
    assert into.conversation.position == before + 2


def test_a_transition_that_comes_late_changes_nothing_that_is_there(into: Import) -> None:
    into.file(stored(ROOT, HANDED, BUILT))
    before = into.conversation.digest

    into.file(stored(ROOT, HANDED, BUILT, phaseTransitions=[transition(NOON + 3, "execute")]))

    assert into.conversation.digest == before
    assert into.report.conversations[0].ignored["phaseTransitions"] == 1


PHASED = event("pm", "Go.", ["phase", "execute"], at=2, under=ROOT["id"], to="coder")
IN_SESSION = event("coder", "Built.", ["claude-session", "s-9"], at=4, under=ROOT["id"], to="pm")
HISTORY = [ROOT, PHASED, IN_SESSION, THANKS]


@pytest.mark.parametrize("beside", [True, False])
def test_profiles_beside_a_conversation_or_before_it_in_the_command_name_its_agents(
    into: Import, tmp_path: Path, beside: bool
) -> None:
    talk, profiles = tmp_path / "talk.json", tmp_path / ("profiles.json" if beside else "people.json")
    talk.write_bytes(json.dumps({"id": ROOT["id"], "history": HISTORY}).encode())
    profiles.write_text(json.dumps(PEOPLE))
    for _ in range(2):  # the second time the file of profiles is known, and read all the same
        list(import_files(into.log, [talk] if beside else [profiles, talk]))

    assert into.log[ROOT["id"]].settings().members == ("pm", "coder")

"""TENEX's stored conversations: sessions of agents, processed messages, and transitions of phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog.context import SinceLastTurn
from stenolog.importers import import_file, import_files
from tests.transcripts.given import Import
from tests.transcripts.signing import NOON, Json, bot, event, key, profile
from tests.transcripts.soundness import assert_sound

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


def test_the_stored_session_of_an_agent_goes_on_behind_its_last_answer(into: Import) -> None:
    into.file(stored(ROOT, HANDED, BUILT, THANKS, agentStates=state(2)))

    assert into.conversation.state().lane("coder").session == "s-9"
    assert sent(into) == ["Thanks."]
    assert_sound(into.log)


def test_an_agent_that_has_not_processed_all_before_its_answer_begins_a_session_and_is_sent_all(
    into: Import,
) -> None:
    meanwhile = event("ann", "In blue.", at=3, under=ROOT["id"], to="pm")
    into.file(stored(ROOT, HANDED, meanwhile, BUILT, THANKS, agentStates=state(2)))

    assert into.conversation.state().lane("coder").session == ""
    assert any("In blue." in words for words in sent(into))
    assert sum(into.report.conversations[0].decisions.values()) == 1


def test_a_session_that_an_event_names_is_believed_before_the_stored_one(into: Import) -> None:
    signed = event("coder", "Built.", ["claude-session", "s-1"], at=4, under=ROOT["id"], to="pm")
    into.file(stored(ROOT, HANDED, signed, agentStates=state(2)))

    assert into.conversation.state().lane("coder").session == "s-1"


def test_a_stored_state_that_is_damaged_is_counted_and_stops_nothing(into: Import) -> None:
    bad = {"coder": {"lastProcessedMessageIndex": "2", "claudeSessionId": "s"}, "pm": 7, "x": {}}
    into.file(stored(ROOT, HANDED, BUILT, agentStates=bad, phaseTransitions=[{"to": 3}, "x"]))

    told = into.report.conversations[0].ignored
    assert told["agentStates that are damaged"] == 3
    assert told["phaseTransitions that are damaged"] == 2
    assert into.conversation.state().lane("coder").session == ""


def test_a_session_that_could_be_an_option_of_a_command_line_is_not_taken(into: Import) -> None:
    into.file(stored(ROOT, HANDED, BUILT, agentStates=state(2, "--dangerous")))

    assert into.conversation.state().lane("coder").session == ""


def test_a_stored_transition_changes_the_phase_and_hands_its_summary_over_at_its_time(into: Import) -> None:
    changes = [
        transition((NOON + 3) * 1000 + 500, "execute", summary="Three pages, in blue."),
        transition(NOON + 9, "verify"),
    ]
    into.file(stored(ROOT, HANDED, BUILT, phaseTransitions=changes))

    built = next(e.position for e in into.entries if e.id == BUILT["id"])
    conversation = into.conversation
    assert conversation.settings(at=built).mode == "execute"
    assert "Three pages, in blue." in json.dumps(conversation.request("coder", at=built - 1).body)
    assert (conversation.settings().mode, conversation.settings().handoff) == ("verify", "Go on.")
    assert_sound(into.log)


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


def bare(**fields: Any) -> bytes:
    """Return the file of a conversation as TENEX writes it: no profile tells who is an agent."""
    return json.dumps({"id": ROOT["id"], "history": HISTORY, **fields}).encode()


STATES = {slug: {"lastProcessedMessageIndex": 0, "claudeSessionId": "s-9"} for slug in ("coder",)}
HANDED_ON = [transition(NOON + 1, "execute", agentId=key("pm"), agentName="PM")]


def test_the_slugs_of_stored_states_and_transitions_are_the_names_of_agents(into: Import) -> None:
    into.file(
        bare(agentStates={**STATES, "pm": {"lastProcessedMessageIndex": 1}}, phaseTransitions=HANDED_ON)
    )

    assert into.conversation.settings().members == ("pm", "coder")
    assert [getattr(said, "agent", "") for said in into.said] == ["", "pm", "coder", ""]
    assert into.conversation.state().lane("coder").session == "s-9"
    assert_sound(into.log)


def test_a_session_that_two_authors_name_is_nobodys_slug(into: Import) -> None:
    thief = event("mallory", "Hi.", ["claude-session", "s-9"], at=5, under=ROOT["id"])
    into.file(json.dumps({"id": ROOT["id"], "history": [*HISTORY, thief], "agentStates": STATES}).encode())

    assert into.conversation.settings().members == ()


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


def test_an_import_names_who_is_probably_an_agent_with_the_key_to_type(into: Import) -> None:
    into.file(bare())
    told = into.report.conversations[0].ignored

    assert {what: count for what, count in told.items() if what.startswith("missing")} == {
        f"missing: an agent's name, probably: --key {key('pm')}=NAME": 1,
        f"missing: an agent's name, probably: --key {key('coder')}=NAME": 1,
    }


def test_an_import_that_contradicts_the_first_one_is_refused_and_writes_nothing(into: Import) -> None:
    into.file(bare())
    before = into.conversation.digest
    into.file(bare(), agents={key("coder"): "coder"})
    refused = into.report.conversations[0]
    import_file(into.log, into.report.file, name="again", agents={key("coder"): "coder"})

    assert "was imported without these agents: coder: import it under another name" in refused.failed
    assert into.log[refused.name].digest == before
    assert into.log["again"].settings().members == ("coder",)

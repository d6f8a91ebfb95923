"""Each request finds its conversation, by the client's ids or by its messages; in doubt it begins its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import LlmError, UserMessage
from stenolog.apps.tap.exchanges.identity import Identity, identity_of
from stenolog.apps.tap.exchanges.wire import of_body, wire_request
from stenolog.apps.tap.recording.agent_notes import NO_NOTE, agent_note
from stenolog.apps.tap.recording.transcriber import Transcriber
from stenolog.projections.views.overview import overview
from tests.recording import given
from tests.recording.given import Tap, anthropic, assistant, call, outcomes, result, said, user

HI = "How many loaves are in the oven, and when will the last of them be done?"
SUMMARY = "detailed summary of the conversation"
UUID = "01234567-89ab-cdef-0123-456789abcdef"
BRIEF = "Count the loaves in the oven and tell me when the last one is done."


def unnamed() -> Tap:
    return Tap(headers=given.CLAUDE)


def test_requests_with_one_session_id_are_one_conversation_whatever_they_say(tap: Tap) -> None:
    tap.send(anthropic(user(HI)))
    tap.send(anthropic(user("Something else.")))

    assert tap.names == ["claude-s-1"]


def test_a_request_that_goes_on_behind_the_recorded_answer_is_the_same_conversation() -> None:
    tap = unnamed()
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(anthropic(user(HI), assistant("Three."), user("Sure?")))

    assert len(tap.names) == 1


def test_two_sessions_that_begin_alike_stay_apart() -> None:
    tap = unnamed()
    tap.send(anthropic(user("hi")), said("Hello, here I am."))
    tap.send(anthropic(user("hi")), said("Good morning to you."))
    tap.send(anthropic(user("hi"), assistant("Good morning to you."), user("Bake.")), said("Yes."))
    tap.send(anthropic(user("hi"), assistant("Hello, here I am."), user("Eat.")), said("No."))

    assert [[words for _, words in tap.told(name)] for name in tap.names] == [
        ["hi", "Hello, here I am.", "Eat.", "No."],
        ["hi", "Good morning to you.", "Bake.", "Yes."],
    ]


LATER = [user(HI), assistant("Three."), user("Sure?"), assistant("Yes."), user("And now?")]
"""A history that a client has written anew, with a message doubled and another one gone."""


@pytest.mark.parametrize(
    ("client", "folders", "answers", "conversations"),
    [
        (given.CLAUDE, ("/a", "/a"), ("Three.", "Yes."), 1),
        (given.CLAUDE, ("/a", "/b"), ("Three.", "Yes."), 2),
        (given.CLAUDE, ("", ""), ("Three.", "Yes."), 2),
        ({"user-agent": "x"}, ("/a", "/a"), ("Three.", "Yes."), 2),
        (given.CLAUDE, ("/a", "/a"), ("Three.", "No."), 2),
    ],
    ids=["the same", "another folder", "no folder", "unknown client", "another answer"],
)
def test_the_first_words_the_client_the_folder_and_an_answer_decide_together(
    client: dict[str, str], folders: tuple[str, str], answers: tuple[str, str], conversations: int
) -> None:
    tap = Tap(headers=client)
    tap.recording = Transcriber(tap.log, work={"cwd": folders[0]} if folders[0] else {})
    tap.send(anthropic(user(HI)), said(answers[0]))
    tap.send(anthropic(user(HI), assistant(answers[0]), user("Sure?")), said(answers[1]))
    tap.recording = Transcriber(tap.log, work={"cwd": folders[1]} if folders[1] else {})
    written_anew = [LATER[0], user("Today is Monday."), user("It rains."), user("Bake."), *LATER[3:]]
    tap.send(anthropic(*written_anew), said("Well."))

    assert len(tap.names) == conversations
    assert outcomes(tap.proofs()) == {"same"}


def test_of_two_sessions_with_the_same_words_and_answers_none_is_gone_on_with() -> None:
    tap = Tap(headers=given.CLAUDE)
    tap.recording = Transcriber(tap.log, work={"cwd": "/a"})
    for _ in range(2):
        tap.send(anthropic(user(HI)), said("Yes."))
    tap.send(anthropic(user(HI), user("It rains."), user("Bake."), *LATER[3:]), said("Well."))

    assert len(tap.names) == 3


def test_a_side_agent_that_repeats_a_conversation_is_not_what_a_resumed_one_goes_on_with() -> None:
    tap = Tap(headers=given.CLAUDE)
    tap.recording = Transcriber(tap.log, work={"cwd": "/a"})
    tap.send(anthropic(user(HI)), said("Yes."))
    side = {"system": f"You keep the memory of a bakery. {given.SYSTEM * 9}", "tools": []}
    repeated = [user(HI), user("It rains."), assistant("Yes."), user("Note what is worth it.")]
    tap.send({**anthropic(*repeated), **side}, said("Noted."))
    main = {"system": f"You are a baker. {given.SYSTEM * 9}"}
    tap.send({**anthropic(user(HI)), **main}, said("Yes."), headers={**given.CLAUDE, "x-session-id": "s-2"})
    resumed = [user(HI), user("It is dry."), user("Bake."), assistant("Yes."), user("And now?")]
    tap.send({**anthropic(*resumed), **main}, said("Well."))

    assert len(tap.names) == 3
    assert tap.told("claude-s-2")[-1] == ("assistant_message", "Well.")


def test_two_taps_that_begin_in_the_same_second_share_no_conversation() -> None:
    one = unnamed()
    other = Tap(one.log, headers=given.CLAUDE)
    one.send(anthropic(user(HI)), said("Three."), id="20261128T132758-7b196a59-4294967297")
    other.send(anthropic(user(HI)), said("Four."), id="20261128T132758-8c4dc8c5-4294967297")

    assert sorted(one.told(name)[1][1] for name in one.names) == ["Four.", "Three."]


def test_another_answer_than_the_recorded_one_begins_a_conversation_of_its_own() -> None:
    tap = unnamed()
    tap.send(anthropic(user("hi")), said("Hello."))
    tap.send(anthropic(user("hi"), assistant("Go away."), user("Why?")))

    assert len(tap.names) == 2


def test_a_request_while_the_lane_waits_for_an_answer_is_no_part_of_it() -> None:
    tap = unnamed()
    waiting = tap.exchange(anthropic(user("hi")))
    tap.recording.request(waiting)
    tap.send(anthropic(user("hi")), said("Hello."))
    tap.answer(waiting, said("Good day."))

    assert len(tap.names) == 2


def test_a_failed_request_that_is_sent_again_is_another_attempt() -> None:
    tap = unnamed()
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    failed = tap.exchange(anthropic(user(HI)))
    tap.recording.request(failed)
    tap.answer(failed, error.encode(), status=529, answer_headers={"content-type": "application/json"})
    tap.send(anthropic(user(HI)), said("Three."))

    assert [kind for kind, _ in tap.told()] == ["user_message", "llm_error", "assistant_message"]
    assert outcomes(tap.proofs()) == {"same"}


def test_a_brief_in_an_open_call_begins_a_lane_of_its_own_with_the_call_as_its_cause() -> None:
    tap = unnamed()
    spawn = call("t1", name="Agent", prompt=BRIEF)
    tap.send(anthropic(user(HI), tools=("Agent",)), said("I ask.", spawn))
    sub = {**anthropic(user(BRIEF), tools=("bash",)), "system": "You count."}
    tap.send(sub, said("Three."))
    tap.send({**sub, "messages": [user(BRIEF), assistant("Three."), user("Sure?")]}, said("Yes."))
    answered = assistant("I ask.", spawn)
    tap.send(anthropic(user(HI), answered, user(result("t1", "Three.")), tools=("Agent",)), said("Three."))
    brief: Any = next(e.event for e in tap.entries() if getattr(e.event, "text", "") == BRIEF)
    agents = {getattr(e.event, "agent", "") for e in tap.entries()} - {""}

    assert (brief.author_kind, tap.entries()[brief.cause - 1].event.kind) == ("agent", "assistant_message")
    assert len(agents) == 2
    assert "Three." not in str(tap.conversation.request("claude", api="anthropic").body["messages"][0])
    assert outcomes(tap.proofs()) == {"same"}


def test_a_title_joins_the_conversation_whichever_of_them_comes_first() -> None:
    title = {"model": "claude-haiku-4-5", "system": "You are a title generator.", "max_tokens": 60}
    ask = {**title, "messages": [user(f"Write a title for: {HI}")]}
    before, behind = unnamed(), unnamed()
    before.send(ask, said("Loaves"))
    before.send(anthropic(user(HI)))
    behind.send(anthropic(user(HI)))
    behind.send(ask, said("Loaves"))

    for tap in (before, behind):
        assert (len(tap.names), tap.conversation.settings().title) == (1, "Loaves")
        assert "Loaves" not in str(tap.conversation.request("claude", api="anthropic").body)
        assert outcomes(tap.proofs()) == {"same"}


@pytest.mark.parametrize("answer", [said("Loaves"), said()], ids=["a title", "no title"])
def test_what_a_client_asks_a_title_with_is_not_said_by_a_person(answer: bytes, tap: Tap) -> None:
    asked = [user("Generate a title for this conversation:"), user(HI)]
    tap.send({"system": "You are a title generator.", "messages": asked}, answer)
    tap.send(anthropic(user(HI)))
    seen = overview(tap.entries())

    assert (seen.words, seen.turns) == (HI, 1)
    assert outcomes(tap.proofs()) == {"same"}


def test_the_prelude_of_a_client_is_not_the_first_words_of_a_person() -> None:
    tap = Tap(headers={"user-agent": "QwenCode/0.15.10 (linux; x64)"})
    prelude = "This is the Qwen Code. We are setting up the context for our chat.\nToday's date is Saturday."
    tap.send(anthropic(user(prelude), assistant("Got it. Thanks for the context!"), user(HI)))
    seen = overview(tap.entries())

    assert (seen.words, seen.turns) == (HI, 1)
    assert outcomes(tap.proofs()) == {"same"}


def test_sub_agents_have_lanes_by_their_ids(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("I ask.", call("t1", name="Agent", prompt=BRIEF)))
    for id in ("a1", "a2"):
        headers = {**tap.headers, "x-claude-code-agent-id": id}
        tap.send(anthropic(user(BRIEF)), said(f"I am {id}."), headers=headers)

    assert {getattr(e.event, "agent", "") for e in tap.entries()} - {""} == {
        "claude",
        "claude-a1",
        "claude-a2",
    }
    assert outcomes(tap.proofs()) == {"same"}


def test_a_note_of_claude_code_names_the_sub_agent_and_the_call_that_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".claude" / "projects" / "-home-user" / "s-1" / "subagents"
    folder.mkdir(parents=True)
    note = {"agentType": "Explore", "description": "look", "toolUseId": "t2", "spawnDepth": 1}
    (folder / "agent-a1.meta.json").write_text(json.dumps(note))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    tap = Tap()
    calls = [call(id, name="Agent", prompt=BRIEF) for id in ("t1", "t2")]
    tap.send(anthropic(user(HI)), said("One.", calls[0]))
    first = [user(HI), assistant("One.", calls[0]), user(result("t1"))]
    tap.send(anthropic(*first), said("Two.", calls[1]))
    tap.send(anthropic(user(BRIEF)), headers={**tap.headers, "x-claude-code-agent-id": "a1"})
    brief: Any = [e.event for e in tap.entries() if getattr(e.event, "text", "") == BRIEF][-1]

    assert brief.to == ("Explore-a1",)
    assert tap.entries()[brief.cause - 1].event.text == "Two."


def test_an_id_that_is_no_id_leads_to_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"agentType": "Explore"}')
    identity = Identity("claude", "s-1", "../../../x")

    assert agent_note(identity, {"HOME": str(tmp_path)}) == NO_NOTE


def test_a_new_recorder_goes_on_where_the_last_one_stopped() -> None:
    def recorded(restarts: bool) -> list[Any]:
        tap = unnamed()
        history = [user(HI)]
        for number in range(5):
            if restarts:
                tap.restarted()
            made = call(f"t{number}", cmd="ls")
            tap.send(anthropic(*history), said("I look.", made))
            history += [assistant("I look.", made), user(result(f"t{number}"))]
        if restarts:
            tap.restarted()
        tap.send(anthropic(user(HI), assistant("I look.", call("t0", cmd="ls")), user(result("t0"), "Stop.")))
        assert outcomes(tap.proofs()) == {"same"}
        return [[entry.event for entry in tap.entries(name)] for name in tap.names]

    assert recorded(True) == recorded(False)


def test_an_exchange_that_is_recorded_again_after_a_crash_adds_nothing() -> None:
    for headers in (given.CLAUDE, {**given.CLAUDE, "x-claude-code-session-id": "s-1"}):
        tap = Tap(headers=headers)
        sent = [tap.send(anthropic(user(HI)), said("Three."))]
        sent.append(tap.send(anthropic(user(HI), assistant("Three."), user("Sure?")), said("Yes.")))
        before = tap.entries()
        tap.restarted()
        for exchange in sent:
            tap.recording.request(exchange)
            tap.recording.answer(exchange)

        assert tap.entries() == before


def test_a_recorder_that_was_killed_before_the_answer_goes_on_with_it(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    begun = tap.exchange(anthropic(user(HI), assistant("Three."), user("Sure?")))
    tap.recording.request(begun)
    tap.restarted()
    tap.recording.request(begun)
    tap.answer(begun, said("Yes."))

    assert [words for _, words in tap.told()] == [HI, "Three.", "Sure?", "Yes."]
    assert outcomes(tap.proofs()) == {"same"}


def test_what_cannot_be_recorded_is_kept_and_said(monkeypatch: pytest.MonkeyPatch, tap: Tap) -> None:
    monkeypatch.setattr("stenolog.apps.tap.recording.session.receipt_for", lambda *_: 1 / 0)
    tap.send(anthropic(user(HI)))
    (note,) = [e.event for e in tap.entries("tap-gaps") if isinstance(e.event, UserMessage)]
    about: Any = note.meta["tap"]

    assert "ZeroDivisionError" in note.text
    assert about["request"] in tap.log.blobs
    assert not note.in_context


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("", anthropic(user(HI))),
        ("", {**anthropic(user("Summarize the history of bread.")), "tools": []}),
        ("title", {"system": "You are a title generator.", "messages": [user("Loaves?")]}),
        ("title", {"messages": [user("Please write a 5-10 word title for this: loaves")]}),
        ("classifier", {"system": "Classify whether this is a new topic.", "messages": [user("Loaves?")]}),
        ("probe", {"max_tokens": 1, "messages": [user("quota")]}),
        ("compaction", anthropic(user(HI), assistant("3"), user(f"Write a {SUMMARY}."))),
        ("compaction", {"system": f"You write a {SUMMARY}.", "messages": [user("…")]}),
    ],
)  # fmt: skip
def test_requests_that_are_no_turn_are_known_by_what_they_ask(kind: str, body: dict[str, Any]) -> None:
    request = of_body("anthropic", {"model": "m", **body})
    exchange = Tap().exchange({})

    assert identity_of(exchange, request).kind == kind


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, {}, ("s", "a")),
        ({}, {"metadata": {"user_id": json.dumps({"session_id": "s"})}}, ("s", "")),
        ({}, {"metadata": {"user_id": f"user_1_account__session_{UUID}"}}, (UUID, "")),
        ({"session-id": "s", "thread-id": "s"}, {}, ("s", "")),
        ({"session-id": "s", "thread-id": "t"}, {}, ("s", "t")),
        ({"x-codex-turn-metadata": json.dumps({"session_id": "s", "thread_id": "t"})}, {}, ("s", "t")),
        ({"x-session-id": "c", "x-parent-session-id": "p"}, {}, ("p", "c")),
        ({"x-session-affinity": "s"}, {}, ("s", "")),
        ({}, {}, ("", "")),
    ],
)  # fmt: skip
def test_ids_are_found_where_each_client_has_them(
    headers: dict[str, str], body: dict[str, Any], expected: tuple[str, str]
) -> None:
    exchange = Tap(headers={**given.CLAUDE, **headers}).exchange({**anthropic(user(HI)), **body})
    request = wire_request(exchange)
    assert request is not None
    identity = identity_of(exchange, request)

    assert (identity.session, identity.agent) == expected


def test_a_question_for_the_number_of_tokens_is_no_turn_and_takes_no_room(tap: Tap) -> None:
    body = {key: value for key, value in anthropic(user(HI)).items() if key not in ("max_tokens", "stream")}
    counting = tap.exchange(body, path="/v1/messages/count_tokens?beta=true")
    tap.recording.request(counting)
    tap.answer(counting, b'{"input_tokens": 77}', answer_headers={"content-type": "application/json"})
    tap.send(anthropic(user(HI)), said("Three."))

    assert [words for _, words in tap.told()] == [HI, "77 tokens", "Three."]
    assert "77 tokens" not in str(tap.conversation.request("claude", api="anthropic").body)
    assert outcomes(tap.proofs()) == {"same"}


def test_an_error_behind_status_200_and_a_cut_stream_keep_what_had_arrived(tap: Tap) -> None:
    overloaded = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Over"}}\n\n'
    )
    half = said("Three loaves and").partition(b"event: content_block_stop")[0]
    for answer, reason in ((half + overloaded, ""), (half, "client-closed"), (half, "relay-stopped")):
        exchange = tap.exchange(anthropic(user(HI)))
        tap.recording.request(exchange)
        tap.answer(exchange, answer, reason=reason)
    errors = [entry.event for entry in tap.entries() if isinstance(entry.event, LlmError)]

    assert [error.text for error in errors] == ["Three loaves and"] * 3
    assert [error.category for error in errors] == ["overloaded", "cancelled", "process_exited"]
    assert [error.attempt for error in errors] == [1, 2, 3]
    assert outcomes(tap.proofs()) == {"same"}


def test_a_count_of_tokens_before_a_restart_of_the_tap_takes_nothing_out_of_context(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    history = [user(HI), assistant("Three."), user("Sure?")]
    tap.send(anthropic(*history), b'{"input_tokens": 9}', path="/v1/messages/count_tokens")
    tap.restarted()
    tap.send(anthropic(*history), said("Yes."))

    assert [entry.position for entry in tap.entries() if entry.event.kind == "mode_switch"] == [1]

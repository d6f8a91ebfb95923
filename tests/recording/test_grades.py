"""The grade of a recorded request: how much of what its model was given follows from entries and cards."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog.analysis import usage
from stenolog.maintenance import verify
from stenolog.projections.requests.as_sent import Patches
from stenolog.projections.requests.grades import constants
from tests.recording.given import (
    PATHS,
    Tap,
    anthropic,
    assistant,
    call,
    outcomes,
    result,
    said,
    sse,
    thought,
    user,
)

CODEX = {"user-agent": "codex_cli_rs/0.169.0", "session_id": "s-1"}
BILLING = {
    "type": "text",
    "text": "x-anthropic-billing-header: cc_version=2.1.197.f60; cc_entrypoint=cli; cch=1;",
}


def graded(tap: Tap) -> tuple[str, dict[str, Any]]:
    """Return the grade of the last request, and the client's own constants in it by JSON pointer."""
    (name,) = tap.log.names()
    conversation = tap.log[name]
    entries = list(conversation.entries())
    answer: Any = next(entry.event for entry in reversed(entries) if getattr(entry.event, "receipt", None))
    receipt, agent = answer.receipt, answer.agent
    built = conversation.request(agent, at=receipt.view, api=receipt.api.partition("@")[0])
    patch = Patches.of(entries).resolve(receipt)
    blobs = tap.log.blobs
    return str(tap.proofs()[-1].grade), dict(constants(patch, built.body, blobs))


def claude(*messages: Any, **fields: Any) -> Any:
    """Return a body as Claude Code sends it: several system blocks, marks of the cache, its own ids."""
    body = anthropic(*messages, tools=("bash", "read"))
    blocks = [BILLING, {"type": "text", "text": "You are a coding agent."}, *body["system"]]
    blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
    return {**body, "system": blocks, "metadata": {"user_id": "user_1_session_s-1"}, **fields}


def codex(*items: Any, **fields: Any) -> Any:
    parameters = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
    tool = {
        "type": "function",
        "name": "exec",
        "description": "Run.",
        "strict": False,
        "parameters": parameters,
    }
    body: dict[str, Any] = {
        "model": "gpt-6-sol",
        "instructions": "You are Codex.",
        "input": [*items],
        "tools": [tool],
    }
    body |= {"tool_choice": "auto", "parallel_tool_calls": True, "store": False, "stream": True}
    return {**body, "prompt_cache_key": "s-1", "client_metadata": {"turn": "t-1"}, **fields}


def test_a_request_of_claude_code_is_derived_in_full(tap: Tap) -> None:
    question = user("How many loaves?")
    tap.send(claude(question), said("I look.", call("t1", cmd="ls")))
    tap.send(claude(question, assistant("I look.", call("t1", cmd="ls")), user(result("t1"))))

    assert graded(tap) == ("derived", {})


def test_a_request_of_codex_is_derived_in_full() -> None:
    tap = Tap(headers=CODEX)
    words = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "How many loaves?"}],
    }
    tap.send(codex(words), path=PATHS["openai-responses"])

    assert graded(tap) == ("derived", {})


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({"speed": {"levels": [{"keep": 3}]}}, {"/speed/levels/0/keep": 3}),
        (
            {"system": [{"type": "text", "text": "Be brief.", "citations": False}]},
            {"/system/0/citations": False},
        ),
    ],
    ids=["a field", "a key of a block"],
)
def test_what_no_entry_and_no_card_has_is_named(fields: dict[str, Any], own: dict[str, Any]) -> None:
    tap = Tap()
    tap.send(claude(user("How many loaves?"), **fields))

    assert graded(tap) == ("attributed", own)


def test_a_response_that_the_log_has_is_explained_and_any_other_one_is_not() -> None:
    tap = Tap(headers=CODEX)
    words = {"role": "user", "content": "How many loaves?"}
    tap.send(codex(words, previous_response_id="resp-before"), path=PATHS["openai-responses"])
    assert graded(tap) == ("attributed", {"/previous_response_id": "resp-before"})

    content = [{"type": "output_text", "text": "Three.", "annotations": []}]
    output = [{"type": "message", "id": "out-1", "role": "assistant", "content": content}]
    answer = {"id": "resp-1", "model": "gpt-6-sol", "status": "completed", "output": output}
    tap.send(
        codex(words), sse({"type": "response.completed", "response": answer}), path=PATHS["openai-responses"]
    )
    more = {"role": "user", "content": "And buns?"}
    tap.send(codex(more, previous_response_id="resp-1"), path=PATHS["openai-responses"])
    assert graded(tap) == ("derived", {"/previous_response_id": "resp-1"})


def test_what_only_the_provider_knows_is_a_constant() -> None:
    tap = Tap(headers=CODEX)
    body = codex({"type": "item_reference", "id": "msg-1"}, {"role": "user", "content": "How many loaves?"})
    tap.send(body | {"tools": [{"type": "web_search"}]}, path=PATHS["openai-responses"])

    grade, own = graded(tap)
    assert grade == "attributed"
    assert own["/tools/0/type"] == "web_search"
    assert own["/0"] == {"type": "item_reference", "id": "msg-1"}


def test_arguments_that_a_client_has_changed_are_its_own(tap: Tap) -> None:
    question = user("Close the ticket.")
    given: dict[str, Any] = {"id": "ticket-5", "status": "open", "strict": True}
    tap.send(claude(question), said("", {**call("t1"), "input": given}))
    changed: dict[str, Any] = {"id": "ticket-6666", "status": "deleted", "strict": False}
    tap.send(claude(question, assistant({**call("t1"), "input": changed}), user(result("t1"))))

    grade, own = graded(tap)
    assert grade == "attributed"
    assert {"ticket-6666", "deleted"} <= set(map(str, own.values()))


def test_of_a_long_list_of_tools_the_one_thing_that_is_not_on_the_card_is_found_in_its_blob(tap: Tap) -> None:
    body = claude(user("How many loaves?"))
    body["tools"] = [{**tool, "description": "Bake. " * 40} for tool in body["tools"] * 9]
    for number, tool in enumerate(body["tools"]):
        tool["name"] = f"tool_{number}"
    body["tools"][7]["defer_loading"] = False
    tap.send(body)

    assert graded(tap) == ("attributed", {"/tools/7/defer_loading": False})


# What a client changes in its history is seen: what is gone, what replaces it, and what comes back.


HI = "How many loaves are in the oven, and when will the last of them be done?"
SUMMARY = (
    "They met at the oven. Three loaves are in it, and the last one will be done at noon, said the baker."
)


def visible(tap: Tap) -> list[str]:
    """Return the words of the messages that are in context now."""
    hides = tap.conversation.settings().hides
    return [
        getattr(entry.event, "text", "")
        for entry in tap.entries()
        if entry.event.kind != "mode_switch" and not any(entry.position in span for span in hides)
    ]


def test_a_rewind_hides_what_it_takes_back_and_what_is_said_then_is_new(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(anthropic(user(HI), assistant("Three."), user("And buns?")), said("None."))
    tap.send(anthropic(user(HI), assistant("Three."), user("And rolls?")), said("Four."))

    assert visible(tap) == [HI, "Three.", "And rolls?", "Four."]
    assert outcomes(tap.proofs()) == {"same"}


def test_whoever_goes_back_to_what_was_taken_back_is_shown_it_again(tap: Tap) -> None:
    first = anthropic(user(HI), assistant("Three."), user("And buns?"))
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(first, said("None."))
    tap.send(anthropic(user(HI), assistant("Three."), user("And rolls?")), said("Four."))
    tap.send(anthropic(*first["messages"], assistant("None."), user("Bake some.")), said("I will."))

    assert visible(tap) == [HI, "Three.", "And buns?", "None.", "Bake some.", "I will."]
    assert outcomes(tap.proofs()) == {"same"}


def test_an_edit_of_the_first_message_leaves_nothing_of_what_followed(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(anthropic(user("How many buns?")), said("None."))

    assert visible(tap) == ["How many buns?", "None."]
    assert outcomes(tap.proofs()) == {"same"}


def test_a_tool_result_that_was_cleared_is_told_apart_from_a_new_one(tap: Tap) -> None:
    history = [user(HI), assistant(call("t1", cmd="ls")), user(result("t1", "a long list " * 90))]
    tap.send(anthropic(*history[:1]), said("", call("t1", cmd="ls")))
    tap.send(anthropic(*history), said("", call("t2", cmd="pwd")))
    cleared = [*history[:2], user(result("t1", "[Old tool result content cleared]"))]
    tap.send(anthropic(*cleared, assistant(call("t2", cmd="pwd")), user(result("t2", "/oven"))))

    assert [kind for kind, _ in tap.told()].count("tool_result") == 2
    assert outcomes(tap.proofs()) == {"same"}


def test_thinking_that_a_client_leaves_out_later_makes_no_new_answer(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three.", thinking="Let me see."))
    with_thought = [user(HI), assistant(thought("Let me see."), "Three."), user("Sure?")]
    tap.send(anthropic(*with_thought), said("Yes."))
    without = [user(HI), assistant("Three."), user("Sure?"), assistant("Yes."), user("Good.")]
    tap.send(anthropic(*without))

    assert [words for _, words in tap.told()] == [HI, "Three.", "Sure?", "Yes.", "Good.", "Done."]
    assert outcomes(tap.proofs()) == {"same"}


def test_a_compaction_is_a_summary_of_all_that_was_visible(tap: Tap) -> None:
    ask = "Your task is to create a detailed summary of the conversation so far."
    history = [user(HI), assistant("Three."), user("And buns?"), assistant("None.")]
    tap.send(anthropic(*history[:1]), said("Three."))
    tap.send(anthropic(*history[:3]), said("None."))
    tap.send(anthropic(*history, user(ask)), said(SUMMARY))
    tap.send(
        anthropic(
            user(f"This session is continued. The summary:\n{SUMMARY}\nGo on."),
        ),
        said("I go on."),
    )
    summary = next(entry.event for entry in tap.entries() if getattr(entry.event, "purpose", "") == "summary")
    request = tap.conversation.request("claude", api="anthropic")

    assert summary.covers  # type: ignore[union-attr]
    assert (HI in str(request.body), SUMMARY in str(request.body)) == (False, True)
    assert [words for _, words in tap.told()].count(SUMMARY) == 1
    assert outcomes(tap.proofs()) == {"same"}


def test_the_same_words_said_again_are_said_again(tap: Tap) -> None:
    tap.send(anthropic(user("Go on.")), said("One loaf."))
    tap.send(anthropic(user("Go on."), assistant("One loaf."), user("Go on.")), said("Two loaves."))
    more = [user("Go on."), assistant("One loaf."), user("Go on."), assistant("Two loaves."), user("Go on.")]
    tap.send(anthropic(*more), said("One loaf."))

    assert [words for _, words in tap.told()] == [
        "Go on.", "One loaf.", "Go on.", "Two loaves.", "Go on.", "One loaf.",
    ]  # fmt: skip
    assert outcomes(tap.proofs()) == {"same"}


def test_tools_and_system_text_are_a_setting_and_only_when_they_change(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(anthropic(user(HI), assistant("Three."), user("Sure?")), said("Yes."))
    more = [user(HI), assistant("Three."), user("Sure?"), assistant("Yes."), user("Look it up.")]
    tap.send(anthropic(*more, tools=("bash", "web")))
    cards = [entry.event.cards for entry in tap.entries() if entry.event.kind == "mode_switch"]  # type: ignore[union-attr]
    named = [[tool.name for tool in card.tools or ()] for each in cards for card in each.values() if card]

    assert named == [["bash"], ["bash", "web"]]
    assert outcomes(tap.proofs()) == {"same"}


def test_an_answer_that_only_the_client_has_is_no_call_and_needs_no_receipt(tap: Tap) -> None:
    tap.send(anthropic(user("Hello")), said("Hi."))
    stopped = [user("Stop"), assistant("No response requested."), user("Go on")]
    tap.send(anthropic(user("Hello"), assistant("Hi."), *stopped), said("I go on."))

    assert [words for _, words in tap.told()][3] == "No response requested."
    assert usage(tap.entries()).total.calls == 2
    assert verify(tap.log).without_receipt == ()


def test_a_message_that_a_client_numbers_anew_is_known_by_its_words(tap: Tap) -> None:
    tap.send(anthropic(user(HI)), said("Three."))
    tap.send(anthropic(user(HI), assistant("Three."), user("And buns?")), said("None."))
    numbered = {**user("And buns?"), "id": "x"}
    tap.send(anthropic(user(HI), assistant("Three."), numbered, assistant("None."), user("Good.")))

    assert [words for _, words in tap.told()] == [HI, "Three.", "And buns?", "None.", "Good.", "Done."]
    assert outcomes(tap.proofs()) == {"same"}


def test_the_thoughts_of_an_answer_that_a_client_sends_as_a_message_of_their_own_are_no_new_answer() -> None:
    tap = Tap()
    tap.send(anthropic(user(HI)), said("Three.", thinking="Let me see."))
    tap.send(anthropic(user(HI), assistant(thought("Let me see.")), assistant("Three."), user("And?")))

    assert [words for _, words in tap.told()] == [HI, "Three.", "And?", "Done."]
    assert outcomes(tap.proofs()) == {"same"}

"""The grade of a recorded request: how much of what its model was given follows from entries and cards."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog.projections.requests.as_sent import Patches
from stenolog.projections.requests.grades import constants
from tests.recording.given import PATHS, Tap, anthropic, assistant, call, result, said, sse, user

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

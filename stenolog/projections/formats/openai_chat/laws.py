"""The laws of OpenAI Chat Completions, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stenolog.projections.formats.chats import (
    arguments_are_objects,
    call_ids,
    content_present,
    ends_with_a_user_turn,
    every_call_answered,
    every_result_has_its_call,
    known_roles,
    media_from_the_user,
    messages_present,
    tool_names,
    tools_declared,
)
from stenolog.projections.formats.checks import (
    Body,
    Finding,
    Law,
    asks_for_json_object,
    collected,
    conversation,
    law,
    says_json,
)

from .write import too_many_tools


def _thoughts(at: str, message: Body) -> Iterator[Finding]:
    """Yield each answer with its reasoning, and misplaced reasoning."""
    thought = message.get("reasoning_content")
    if message.get("role") != "assistant":
        if "reasoning_content" in message:
            yield f"{at}/reasoning_content", "not an answer"
    elif "reasoning_content" not in message:
        yield at, ""
    elif isinstance(thought, str) and thought:
        yield at, "brought"
    else:
        yield f"{at}/reasoning_content", repr(thought)


@collected(_thoughts)
def reasoning_with_every_answer(body: Body, thoughts: Sequence[Finding]) -> Iterator[Finding]:
    """If one answer has its reasoning, every answer has one, as a text that is not empty."""
    brings = any(found == "brought" for _, found in thoughts)
    for place, found in thoughts:
        if found not in ("", "brought"):
            yield place, found
        elif brings and not found:
            yield f"{place}/reasoning_content", "none, though other answers bring theirs"


@law
def json_is_said(body: Body) -> Iterator[Finding]:
    """An answer that is to be a JSON object needs the word json among the messages."""
    if asks_for_json_object(body.get("response_format")) and not says_json(conversation(body, "messages")):
        yield "/response_format", "no message says json"


@law
def tools_number(body: Body) -> Iterator[Finding]:
    """At most 128 tools are declared."""
    yield from too_many_tools(body)


LAWS: tuple[Law, ...] = (
    messages_present,
    known_roles({"system", "developer", "user", "assistant", "tool"}),
    every_call_answered,
    every_result_has_its_call,
    call_ids,
    tool_names,
    arguments_are_objects,
    content_present,
    media_from_the_user,
    reasoning_with_every_answer,
    tools_declared,
    json_is_said,
    ends_with_a_user_turn,
    tools_number,
)

"""The laws of OpenAI Chat Completions, each from a documented or observed refusal."""

from __future__ import annotations

from collections.abc import Sequence

from stenolog.projections.formats import chats, checks

from .write import too_many_tools


def _thoughts(at: str, message: checks.Body) -> checks.Findings:
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


@checks.collected(_thoughts)
def reasoning_with_every_answer(body: checks.Body, thoughts: Sequence[checks.Finding]) -> checks.Findings:
    """If one answer has its reasoning, every answer has one, as a text that is not empty."""
    brings = any(found == "brought" for _, found in thoughts)
    for place, found in thoughts:
        if found not in ("", "brought"):
            yield place, found
        elif brings and not found:
            yield f"{place}/reasoning_content", "none, though other answers bring theirs"


@checks.law
def json_is_said(body: checks.Body) -> checks.Findings:
    """An answer that is to be a JSON object needs the word json among the messages."""
    wanted = checks.asks_for_json_object(body.get("response_format"))
    if wanted and not checks.says_json(checks.conversation(body, "messages")):
        yield "/response_format", "no message says json"


@checks.law
def tools_number(body: checks.Body) -> checks.Findings:
    """At most 128 tools are declared."""
    yield from too_many_tools(body)


LAWS: tuple[checks.Law, ...] = (
    chats.messages_present,
    chats.known_roles({"system", "developer", "user", "assistant", "tool"}),
    chats.every_call_answered,
    chats.every_result_has_its_call,
    chats.call_ids,
    chats.tool_names,
    chats.arguments_are_objects,
    chats.content_present,
    chats.media_from_the_user,
    reasoning_with_every_answer,
    chats.tools_declared,
    json_is_said,
    chats.ends_with_a_user_turn,
    tools_number,
)

"""The laws of Cohere's Chat API, each from its reference (docs.cohere.com/reference/chat, September 2026)."""

from __future__ import annotations

from collections.abc import Iterator

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

from ..checks import Body, Finding, Law, blank, law, per_message

STOPS = 5
"""The most texts in `stop_sequences`."""


@per_message
def plan_with_calls(at: str, message: Body) -> Iterator[Finding]:
    """Only an answer with calls has a plan, which is not blank."""
    if "tool_plan" in message and (not message.get("tool_calls") or blank(message["tool_plan"])):
        yield f"{at}/tool_plan", f"{message['tool_plan']!r:.60}"


@law
def json_without_tools(body: Body) -> Iterator[Finding]:
    """An answer in JSON cannot be asked for beside tools or documents."""
    asked = body.get("response_format") or {}
    if asked.get("type") == "json_object" and (body.get("tools") or body.get("documents")):
        yield "/response_format", "beside tools or documents"


@law
def few_stop_sequences(body: Body) -> Iterator[Finding]:
    """At most 5 texts stop an answer."""
    if len(body.get("stop_sequences") or ()) > STOPS:
        yield "/stop_sequences", f"{len(body['stop_sequences'])} texts, at most {STOPS}"


LAWS: tuple[Law, ...] = (
    messages_present,
    known_roles({"system", "user", "assistant", "tool"}),
    every_call_answered,
    every_result_has_its_call,
    call_ids,
    tool_names,
    arguments_are_objects,
    content_present,
    plan_with_calls,
    media_from_the_user,
    tools_declared,
    json_without_tools,
    few_stop_sequences,
    ends_with_a_user_turn,
)

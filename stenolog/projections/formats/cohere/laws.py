"""The laws of Cohere's Chat API, each from its reference (docs.cohere.com/reference/chat, September 2026)."""

from __future__ import annotations

from stenolog.projections.formats import chats, checks

STOPS = 5
"""The most texts in `stop_sequences`."""


@checks.per_message
def plan_with_calls(at: str, message: checks.Body) -> checks.Findings:
    """Only an answer with calls has a plan, which is not blank."""
    if "tool_plan" in message and (not message.get("tool_calls") or checks.blank(message["tool_plan"])):
        yield f"{at}/tool_plan", f"{message['tool_plan']!r:.60}"


@checks.law
def json_without_tools(body: checks.Body) -> checks.Findings:
    """An answer in JSON cannot be asked for beside tools or documents."""
    asked = body.get("response_format") or {}
    if asked.get("type") == "json_object" and (body.get("tools") or body.get("documents")):
        yield "/response_format", "beside tools or documents"


@checks.law
def few_stop_sequences(body: checks.Body) -> checks.Findings:
    """At most 5 texts stop an answer."""
    if len(body.get("stop_sequences") or ()) > STOPS:
        yield "/stop_sequences", f"{len(body['stop_sequences'])} texts, at most {STOPS}"


LAWS: tuple[checks.Law, ...] = (
    chats.messages_present,
    chats.known_roles({"system", "user", "assistant", "tool"}),
    chats.every_call_answered,
    chats.every_result_has_its_call,
    chats.call_ids,
    chats.tool_names,
    chats.arguments_are_objects,
    chats.content_present,
    plan_with_calls,
    chats.media_from_the_user,
    chats.tools_declared,
    json_without_tools,
    few_stop_sequences,
    chats.ends_with_a_user_turn,
)

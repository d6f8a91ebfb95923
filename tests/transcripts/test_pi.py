"""Sessions of pi, of its first and third version, and of OpenClaw, which writes the same."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.events import Usage
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Import, Json
from tests.transcripts.soundness import assert_sound

AT = "2026-01-02T03:04:05.678Z"
USAGE = {"input": 3, "output": 20, "cacheRead": 100, "cacheWrite": 7, "cost": {"total": 0.00123}}
HEAD: Json = {"type": "session", "id": "s-1", "version": 3, "timestamp": AT, "cwd": "/home/user/shop"}
OLD_HEAD: Json = {
    "type": "session",
    "id": "s-0",
    "timestamp": AT,
    "cwd": "/home/user/shop",
    "provider": "anthropic",
    "modelId": "claude-x",
    "thinkingLevel": "off",
}


def entry(id: str, parent: str | None, type: str = "message", **fields: Any) -> Json:
    return {"type": type, "id": id, "parentId": parent, "timestamp": AT, **fields}


def user(words: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def answer(*blocks: Json | str, **fields: Any) -> Json:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    about = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-x", "stopReason": "stop"}
    return {"role": "assistant", "content": content, **about, "usage": USAGE, **fields}


def call(id: str, **given: Any) -> Json:
    return {"type": "toolCall", "id": id, "name": "bash", "arguments": given}


def result(id: str, words: str = "done", **fields: Any) -> Json:
    return {"role": "toolResult", "toolCallId": id, "toolName": "bash", "content": words, **fields}


def body(into: Import) -> str:
    """Return the request of the agent at the end, as text; the import of the same again added nothing."""
    assert_sound(into.log)
    return str(into.conversation.request("pi", api="anthropic").body)


def shown(into: Import, *words: str) -> list[bool]:
    text = body(into)
    return [each in text for each in words]


def test_a_session_of_the_first_version_has_no_ids(into: Import) -> None:
    records = [user("List it."), answer("I look.", call("c1", command="ls")), result("c1", isError=True)]
    into.records(OLD_HEAD, *({"type": "message", "timestamp": AT, "message": each} for each in records))
    question, said, output = into.said

    assert into.report.conversations[0].name == "s-0"
    assert isinstance(question, UserMessage)
    assert question.text == "List it."
    assert isinstance(said, AssistantMessage)
    assert [type(part) for part in said.parts] == [TextPart, ToolCall]
    assert (said.tool_calls[0].arguments, said.model, said.cause) == ('{"command":"ls"}', "claude-x", 2)
    assert said.usage == Usage(input=110, output=20, cache_read=100, cache_write=7, cost=1230)
    assert isinstance(output, ToolResult)
    assert (output.name, output.text, output.is_error, output.call is not None) == (
        "bash",
        "done",
        True,
        True,
    )
    assert into.conversation.settings().title == "List it."
    assert into.settings[0].meta == {"pi": {"cwd": "/home/user/shop", "thinking": "off"}}


TREE = [
    HEAD,
    entry("u1", None, message=user("First question")),
    entry("a1", "u1", message=answer("First answer")),
    entry("u2", "a1", message=user("Second question")),
    entry("a2", "u2", message=answer("Second answer")),
]
ALL = ("First question", "First answer", "Second question", "Second answer", "Other question")


def test_a_record_below_an_earlier_one_hides_what_came_since_and_keeps_it_as_a_fork(into: Import) -> None:
    summary = entry("b1", "a1", "branch_summary", fromId="a2", summary="They tried a second way.")
    into.records(*TREE, summary, entry("u3", "b1", message=user("Other question")))

    assert shown(into, *ALL) == [True, True, False, False, True]
    assert "They tried a second way." in body(into)
    assert [name for name in into.log if name.startswith("s-1~")] == into.report.conversations[0].forks != []
    assert into.report.conversations[0].decisions == {"rewound": 1}


def test_going_back_to_a_branch_that_was_left_shows_it_again(into: Import) -> None:
    into.records(
        *TREE,
        entry("u3", "a1", message=user("Other question")),
        entry("l1", "a2", "label", targetId="a2", label="good"),
        entry("u4", "l1", message=user("Third question")),
    )

    assert shown(into, *ALL, "Third question") == [True, True, True, True, False, True]


def test_a_record_without_a_parent_begins_anew(into: Import) -> None:
    into.records(*TREE, entry("u3", None, message=user("Other question")))

    assert shown(into, *ALL) == [False, False, False, False, True]


def test_an_unknown_parent_leaves_nothing(into: Import) -> None:
    into.records(*TREE, entry("u3", "elsewhere", message=user("Other question")))

    assert shown(into, *ALL) == [True, True, True, True, True]


@pytest.mark.parametrize("kept", [{"firstKeptEntryId": "u2"}, {"firstKeptEntryIndex": 3}])
def test_a_compaction_is_a_summary_of_what_comes_before_the_first_kept_entry(
    into: Import, kept: Json
) -> None:
    compaction = entry("k1", "a2", "compaction", summary="They met.", tokensBefore=9, **kept)
    into.records(*TREE, compaction, entry("u3", "k1", message=user("Other question")))

    assert shown(into, *ALL) == [False, False, True, True, True]
    assert "They met." in body(into)


def test_a_compaction_on_a_branch_that_is_left_counts_no_more(into: Import) -> None:
    compaction = entry("k1", "a2", "compaction", summary="They met.", firstKeptEntryId="u2")
    after = entry("u3", "k1", message=user("Lost question"))
    into.records(*TREE, compaction, after, entry("u4", "a2", message=user("Other question")))

    assert shown(into, *ALL) == [True, True, True, True, True]
    assert shown(into, "They met.", "Lost question") == [False, False]


def test_a_second_compaction_covers_the_first_summary(into: Import) -> None:
    into.records(
        *TREE,
        entry("k1", "a2", "compaction", summary="They met.", firstKeptEntryId="u2"),
        entry("u3", "k1", message=user("Other question")),
        entry("a3", "u3", message=answer(call("c1"))),
        entry("k2", "a3", "compaction", summary="They met twice.", firstKeptEntryId="k2"),
        entry("u4", "k2", message=user("And now?")),
    )

    assert shown(into, *ALL, "They met.", "They met twice.", "And now?") == [False] * 6 + [True, True]


def test_an_answer_that_failed_is_an_error_with_what_had_come(into: Import) -> None:
    cut = {**call("c1", command="l"), "partialJson": '{"command":"l'}
    into.records(
        HEAD,
        entry("u1", None, message=user("Hi")),
        entry("a1", "u1", message=answer(stopReason="aborted", errorMessage="Request was aborted")),
        entry(
            "a2", "a1", message=answer("I", cut, stopReason="error", errorMessage="429 rate limit reached")
        ),
    )
    stopped, failed = into.said[1:]

    assert isinstance(stopped, LlmError)
    assert (stopped.category, stopped.message, stopped.parts) == ("cancelled", "Request was aborted", ())
    assert isinstance(failed, LlmError)
    assert (failed.category, failed.text, failed.model) == ("rate_limited", "I", "claude-x")
    assert failed.tool_calls[0].arguments == '{"command":"l'
    assert_sound(into.log)


@pytest.mark.parametrize(
    ("fields", "block", "part"),
    [
        (
            {},
            {"thinking": "Hm.", "thinkingSignature": "sig"},
            ReasoningPart(text="Hm.", provider="anthropic", signature="sig"),
        ),
        (
            {},
            {"thinking": "", "thinkingSignature": "data", "redacted": True},
            ReasoningPart(provider="anthropic", encrypted="data"),
        ),
        (
            {"api": "openai-responses", "provider": "openai"},
            {"thinking": "Hm.", "thinkingSignature": '{"id":"rs_1","encrypted_content":"e"}'},
            ReasoningPart(text="Hm.", provider="openai", id="rs_1", encrypted="e"),
        ),
        (
            {"api": "openai-completions", "provider": "deepseek"},
            {"thinking": "Hm.", "thinkingSignature": "reasoning_content"},
            ReasoningPart(text="Hm.", provider="deepseek"),
        ),
        (
            {"api": "google-generative-ai", "provider": "google"},
            {"thinking": "Hm.", "thinkingSignature": "sig"},
            ReasoningPart(text="Hm.", provider="gemini", signature="sig"),
        ),
    ],
)
def test_a_thought_has_the_proof_of_its_provider(into: Import, fields: Json, block: Json, part: Any) -> None:
    message = answer({"type": "thinking", **block}, "Ho.", **fields)
    into.records(HEAD, entry("u1", None, message=user("Hi")), entry("a1", "u1", message=message))
    said = into.said[1]

    assert isinstance(said, AssistantMessage)
    assert said.parts[0] == part


def test_commands_that_a_person_runs_are_shown_unless_they_are_private(into: Import) -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a.txt", "exitCode": 1, "cancelled": False}
    private = {**ran, "command": "env", "output": "", "exitCode": 0, "excludeFromContext": True}
    into.records(HEAD, entry("u1", None, message=ran), entry("u2", "u1", message=private))
    first, second = into.said

    assert getattr(first, "text", "") == "Ran `ls`\n```\na.txt\n```\n\nCommand exited with code 1"
    assert (getattr(second, "text", ""), getattr(second, "in_context", True)) == (
        "Ran `env`\n(no output)",
        False,
    )


def test_words_of_extensions_are_by_the_system_and_settings_are_settings(into: Import) -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    into.records(
        HEAD,
        entry("m1", None, "model_change", provider="openai", modelId="gpt-x"),
        entry("t1", "m1", "thinking_level_change", thinkingLevel="high"),
        entry("i1", "t1", "session_info", name="the bell"),
        entry("c1", "i1", "custom", customType="state", data={}),
        entry("x1", "c1", "custom_message", customType="todo", content="Two left.", display=False),
        entry("u1", "x1", message={"role": "user", "content": [{"type": "text", "text": "See"}, picture]}),
    )
    injected, seen = into.said
    settings = into.conversation.settings()

    assert isinstance(injected, UserMessage)
    assert (injected.author_kind, injected.author, injected.text) == ("system", "todo", "Two left.")
    assert [type(part) for part in getattr(seen, "parts", ())] == [TextPart, ImagePart]
    assert (settings.title, settings.card_of("pi").model) == ("the bell", "gpt-x")
    assert into.report.conversations[0].ignored["custom"] == 1


BRANCHES = [
    *TREE,
    entry("u3", "a1", message=user("Other question")),
    entry("a3", "u3", message=answer("I look", call("c1"))),
    entry("r1", "a3", message=result("c1")),
    entry("k1", "r1", "compaction", summary="They met.", firstKeptEntryId="a3"),
    entry("u4", "a2", message=user("Third question")),
]

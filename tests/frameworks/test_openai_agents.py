"""A session of the OpenAI Agents SDK is a conversation: what is added, popped and cleared are facts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ModeSwitch, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.frameworks import OpenAIAgentsSession
from stenolog.parts import ImagePart
from tests.examples.harness import clean
from tests.strategies import json_values

ASKED: dict[str, Any] = {"role": "user", "content": "Which test fails?"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "shell",
    "arguments": '{"cmd": "pytest"}',
}
OTHER = {"type": "function_call", "call_id": "c2", "name": "shell", "arguments": "{}", "status": "completed"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "FAILED test_dates"}
OTHER_RESULT = {
    "type": "function_call_output",
    "call_id": "c2",
    "output": [{"type": "input_text", "text": "ok"}],
}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "test_dates fails.", "annotations": [], "logprobs": []}],
}
TURN: list[dict[str, Any]] = [ASKED, THOUGHT, CALL, OTHER, RESULT, OTHER_RESULT, SAID]
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def run(awaited: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await awaited

    return asyncio.run(wait())


@pytest.fixture
def session(tmp_path: Path) -> Any:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield OpenAIAgentsSession(log["parser"], model="gpt-5.2")


def as_json(item: Any) -> str:
    return json.dumps(item, sort_keys=True)


def items(session: OpenAIAgentsSession, limit: int | None = None) -> list[Any]:
    found: list[Any] = run(session.get_items(limit))
    return found


def test_items_come_back_as_they_were_added_and_a_limit_gives_the_last(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN[:1]))
    run(session.add_items(TURN[1:]))

    assert items(session) == TURN
    assert items(session, 2) == TURN[-2:]
    assert (items(session, 0), items(session, 99), items(session, -1)) == ([], TURN, TURN)


def test_what_a_model_says_without_a_break_is_one_message_and_pairs_with_its_results(
    session: OpenAIAgentsSession,
) -> None:
    run(session.add_items(TURN))

    entries = [entry.event for entry in session.conversation.entries()]
    kinds = [type(event) for event in entries]
    tools = [item for item in session.conversation.timeline() if item.kind == "tool"]

    assert kinds == [ModeSwitch, UserMessage, AssistantMessage, ToolResult, ToolResult, AssistantMessage]
    assert [(tool.author, tool.status, tool.output) for tool in tools] == [
        ("assistant", "ok", (TextPart(text="FAILED test_dates"),)),
        ("assistant", "ok", (TextPart(text="ok"),)),
    ]


def test_the_log_keeps_no_text_twice(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))

    stored = b"".join(record.payload for record in session.conversation.records())

    assert [stored.count(text) for text in (b"Which test", b"pytest", b"FAILED", b"test_dates fails.")] == [
        1
    ] * 4


def test_the_request_that_the_log_leads_to_is_made_of_the_same_items(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))

    body = session.conversation.request("assistant", at=5, api="openai-responses").body

    assert [item.get("type", "message") for item in TURN[:6]] == [item["type"] for item in body["input"]]
    assert body["input"][1]["encrypted_content"] == THOUGHT["encrypted_content"]


def test_pop_takes_back_item_by_item_and_the_log_remembers_them_all(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))
    before = [entry.event for entry in session.conversation.entries()]

    popped = [run(session.pop_item()) for _ in range(len(TURN) + 1)]

    assert popped == [*reversed(TURN), None]
    assert items(session) == []
    assert [entry.event for entry in session.conversation.entries()][: len(before)] == before


def test_what_was_popped_can_be_said_otherwise(session: OpenAIAgentsSession) -> None:
    run(session.add_items([*TURN, CALL, OTHER]))

    run(session.pop_item())
    run(session.add_items([SAID]))

    assert items(session) == [*TURN, CALL, SAID]
    assert [(span.first, span.last) for span in session.conversation.settings().hides] == [(6, 6)]


def test_pops_one_after_the_other_are_one_span(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))

    for _ in range(4):
        run(session.pop_item())

    assert len(session.conversation.settings().hides) == 1


def test_clear_begins_anew_and_deletes_nothing(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))

    run(session.clear_session())
    run(session.clear_session())
    run(session.add_items([ASKED]))

    assert items(session) == [ASKED]
    assert [entry.event.kind for entry in session.conversation.entries()][6:] == [
        "mode_switch",
        "user_message",
    ]
    assert session.conversation.settings().context_from == 7


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    for nth in range(3):
        with stenolog.open(tmp_path / "talks.db") as log:
            run(OpenAIAgentsSession(log["parser"]).add_items([{"role": "user", "content": str(nth)}]))

    with stenolog.open(tmp_path / "talks.db") as log:
        found = items(OpenAIAgentsSession(log["parser"]))

    assert [item["content"] for item in found] == ["0", "1", "2"]


def test_batches_of_two_runs_at_once_do_not_mix(session: OpenAIAgentsSession) -> None:
    batches = [[dict(item, name=f"run {nth}") for item in TURN] for nth in range(20)]

    async def at_once() -> None:
        await asyncio.gather(*map(session.add_items, batches))

    asyncio.run(at_once())
    found = items(session)

    assert sorted(found[:: len(TURN)], key=str) == sorted((batch[0] for batch in batches), key=str)
    assert all(found[n : n + len(TURN)] in batches for n in range(0, len(found), len(TURN)))


def test_two_pops_at_once_take_two_items(session: OpenAIAgentsSession) -> None:
    run(session.add_items(TURN))

    async def at_once() -> list[Any]:
        return [*await asyncio.gather(*(session.pop_item() for _ in TURN))]

    popped = asyncio.run(at_once())

    assert sorted(map(as_json, popped)) == sorted(map(as_json, TURN))


def test_pictures_are_blobs_and_come_back_as_data_urls(session: OpenAIAgentsSession) -> None:
    asked = {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL, "detail": "low"}]}

    run(session.add_items([asked]))
    [*_, entry] = session.conversation.entries()

    assert items(session) == [asked]
    assert isinstance(entry.event, UserMessage)
    assert [type(part) for part in entry.event.parts] == [ImagePart]
    assert PIXEL.partition(",")[2].encode() not in [*session.conversation.records()][-1].payload


def test_the_calls_of_tools_that_the_sdk_runs_itself_pair_with_their_outputs(
    session: OpenAIAgentsSession,
) -> None:
    shell = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}, "status": "completed"}
    output = {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "a.py", "stderr": ""}]}
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}

    run(session.add_items([ASKED, searched, shell, output]))
    [tool] = [item for item in session.conversation.timeline() if item.kind == "tool"]

    assert items(session) == [ASKED, searched, shell, output]
    assert (tool.detail, tool.text, tool.status) == ("shell", '{"commands":["ls"]}', "ok")


def test_what_others_have_written_is_given_as_items(session: OpenAIAgentsSession) -> None:
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest"}')
    session.conversation.extend(
        [
            UserMessage(text="Which test fails?"),
            UserMessage(text="A note for people", in_context=False),
            AssistantMessage(agent="coder", text="I look.", tool_calls=[call]),
            ToolResult(call_id="c1", text="FAILED"),
            LlmError(agent="coder", category="timeout", text="The failing"),
        ]
    )

    def spoken(text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "role": "assistant", "content": content}

    assert items(session) == [
        {"role": "user", "content": "Which test fails?"},
        spoken("I look."),
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd": "pytest"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "FAILED"},
        spoken("The failing"),
    ]


def test_whatever_changes_the_items_that_were_given_changes_nothing_in_the_log(
    session: OpenAIAgentsSession,
) -> None:
    run(session.add_items([SAID]))

    items(session)[0]["content"][0]["annotations"].append("changed")
    items(session)[0].clear()

    assert items(session) == [SAID]


def test_a_log_with_all_of_it_is_clean(session: OpenAIAgentsSession) -> None:
    run(session.add_items([*TURN, CALL]))
    run(session.pop_item())
    run(session.pop_item())
    run(session.clear_session())
    run(session.add_items(TURN))

    clean(Path(session.conversation.log.path))


def texts(*names: str) -> dict[str, st.SearchStrategy[str]]:
    return {name: st.sampled_from(["", "a", "ü\n"]) for name in names}


def contents(*types: str) -> st.SearchStrategy[Any]:
    part = st.fixed_dictionaries(
        {"type": st.sampled_from(types)},
        optional=texts("text", "refusal", "filename")
        | {"image_url": st.sampled_from([PIXEL, "x"]), "n": json_values()},
    )
    return st.sampled_from(["", "hi"]) | st.lists(part, max_size=3)


ANY = {
    "id": st.sampled_from(["i1", "i2"]),
    "status": st.sampled_from(["completed", None]),
    "extra": json_values(),
}
ITEMS = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "developer"])},
        optional={
            "content": contents("input_text", "input_image", "input_file", "other"),
            "type": st.just("message"),
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": contents("output_text", "refusal", "other")}, optional=ANY
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning")},
        optional=ANY
        | texts("encrypted_content")
        | {"summary": st.lists(st.fixed_dictionaries(texts("type", "text")), max_size=2)},
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["function_call", "custom_tool_call", "shell_call", "program"]),
            "call_id": st.sampled_from(["c1", "c2", None]),
        },
        optional=ANY | texts("name", "arguments", "input") | {"action": json_values()},
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["function_call_output", "local_shell_call_output", "mcp_call", "compaction"]
            ),
            "call_id": st.sampled_from(["c1", "c2"]),
        },
        optional=ANY | {"output": contents("input_text", "computer_screenshot") | json_values()},
    ),
    st.dictionaries(st.text(max_size=3), json_values(), max_size=3),
)


@given(batches=st.lists(st.lists(ITEMS, max_size=5), min_size=1, max_size=3), pops=st.integers(0, 4))
def test_any_items_come_back_word_for_word(batches: list[list[Any]], pops: int) -> None:
    with stenolog.open(":memory:") as log:
        found, left = _added_and_popped(log, batches, pops)
        expected = [item for batch in batches for item in batch]

    assert as_json(found) == as_json(expected)
    assert json.dumps(left, sort_keys=True) == json.dumps(
        expected[: max(len(expected) - pops, 0)], sort_keys=True
    )


def _added_and_popped(log: Log, batches: list[list[Any]], pops: int) -> tuple[list[Any], list[Any]]:
    session = OpenAIAgentsSession(log["any"])

    async def go() -> tuple[list[Any], list[Any]]:
        for batch in batches:
            await session.add_items(batch)
        found = await session.get_items()
        for _ in range(pops):
            await session.pop_item()
        return found, await session.get_items()

    return asyncio.run(go())


def test_a_setting_that_the_sdk_does_not_have_is_refused_as_its_own_sessions_do() -> None:
    with stenolog.open(":memory:") as log, pytest.raises(TypeError, match="Unknown session settings: limitt"):
        OpenAIAgentsSession(log["s"], session_settings={"limitt": 1})


def test_settings_may_be_a_dict_and_a_closed_session_says_that_it_is_closed(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        session = OpenAIAgentsSession(log["s"], session_settings={"limit": 2})
        run(session.add_items([{"role": "user", "content": text} for text in "abc"]))

        assert [item["content"] for item in items(session)] == ["b", "c"]
        session.close()
        for closed in (
            session.get_items(),
            session.add_items([]),
            session.pop_item(),
            session.clear_session(),
        ):
            with pytest.raises(stenolog.errors.CallerError, match="the session 's' is closed"):
                run(closed)
        assert len(items(OpenAIAgentsSession(log["s"]))) == 3

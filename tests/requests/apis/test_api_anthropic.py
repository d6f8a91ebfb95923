"""Anthropic Messages: breakpoints, system turns, its own tools, thinking, and what is too large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    ModeSwitch,
    Request,
    TextPart,
    Tool,
    ToolResult,
    UserMessage,
)
from stenolog.context import Prompt
from stenolog.parts import FilePart, ImagePart, ProviderPart
from stenolog.requests import build, validate
from tests.requests.given import ASKED, CALL, calls, log
from tests.requests.histories import FOUND, PNG, SEARCH
from tests.requests.judging import complaints, needs_judges

MARK = {"type": "ephemeral"}
SHELL = Tool(name="shell")
SHELL_SHAPE = {"name": "shell", "input_schema": {"type": "object"}}
RESULT = ToolResult(call_id="c1", text="a.py")
TURN = (ASKED, calls("", CALL), RESULT)
BANNER = Prompt(banner="You are in {mode} mode.")


def request(
    *events: Event,
    model: str = "claude-opus-5",
    policy: Prompt | None = None,
    blobs: dict[str, bytes] | None = None,
    allowed: str = "",
    **card: Any,
) -> Request:
    """Return the request on this API; it breaks no law but the allowed one."""
    switch = ModeSwitch(cards={"coder": AgentCard(model=model, **card)})
    made = build(log(switch, *events), "coder", api="anthropic", policy=policy, blobs=blobs or {})
    assert [found for found in validate("anthropic", made.body) if found.law != allowed] == []
    return made


def asking(**parameters: Any) -> Request:
    """Return the request of a card with these parameters and one tool."""
    model = parameters.pop("model", "claude-opus-4-5")
    return request(ASKED, model=model, tools=(SHELL,), parameters=parameters)


def marked(made: Request) -> list[str]:
    """Return the texts of the conversation's blocks that a breakpoint stands behind."""
    blocks = [block for message in made.body["messages"] for block in message["content"]]
    return [block.get("text") or block["content"] for block in blocks if "cache_control" in block]


def test_one_breakpoint_stands_behind_the_persona_and_one_at_the_end_without_touching_the_conversation() -> (
    None
):
    made = request(*TURN, persona="You are a coder.", tools=(SHELL,))

    assert made.body["system"] == [{"type": "text", "text": "You are a coder.", "cache_control": MARK}]
    assert made.body["cache_control"] == MARK
    assert "cache_control" not in str(made.body["tools"])
    assert marked(made) == []


def test_without_a_persona_the_breakpoint_stands_behind_the_last_tool() -> None:
    made = request(ASKED, tools=(SHELL, Tool(name="then")))

    assert ["cache_control" in tool for tool in made.body["tools"]] == [False, True]
    assert "system" not in made.body


def test_a_card_may_want_no_breakpoint_at_all() -> None:
    made = request(*TURN, persona="You are a coder.", parameters={"cache": False})

    assert "cache" not in str(made.body)
    assert made.body["system"] == "You are a coder."


def test_before_notes_behind_the_conversation_breakpoints_stand_now_and_where_they_stood_before() -> None:
    wanted: dict[str, Any] = {"policy": BANNER, "tools": (SHELL,)}
    second = UserMessage(text="and now?")

    before = request(*TURN, **wanted)
    after = request(*TURN, calls("done"), second, **wanted)

    assert before.body["messages"][-1]["role"] == "system"
    assert marked(before) == ["List the files", "a.py"]
    assert marked(after) == ["a.py", "and now?"]
    assert "cache_control" not in after.body
    assert unmarked(after)[:3] == unmarked(before)[:3]


def unmarked(made: Request) -> list[Any]:
    """Return the messages without their breakpoints."""
    messages: list[Any] = json.loads(json.dumps(made.body["messages"]), object_hook=_unmarked)
    return messages


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-5", "claude-opus-5-1", "claude-mythos-5"])
def test_notes_behind_the_conversation_are_a_system_turn_where_the_model_takes_one(model: str) -> None:
    made = request(*TURN, model=model, policy=BANNER)

    banner = {"type": "text", "text": "You are in chat mode."}
    assert made.body["messages"][-1] == {"role": "system", "content": [banner]}
    assert made.parts[-2].rule == "mode-banner"
    assert made.parts[-2].message == 3


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "claude-sonnet-5", "claude-opus-4-8@20260801", "us.anthropic.claude-opus-5"]
)
def test_elsewhere_they_are_quoted_at_the_end_of_the_users_turn(model: str) -> None:
    made = request(*TURN, model=model, policy=BANNER)

    assert [message["role"] for message in made.body["messages"]] == ["user", "assistant", "user"]
    assert made.body["messages"][-1]["content"][-1]["text"] == "<note>\nYou are in chat mode.\n</note>"


def test_a_system_note_of_the_log_is_quoted_so_that_it_stays_as_it_was_when_the_user_speaks_next() -> None:
    noted = UserMessage(text="Be brief", author_kind="system")

    before = request(ASKED, noted)
    after = request(ASKED, noted, UserMessage(text="and now?"))

    assert before.body["messages"][0]["content"][1]["text"] == "<note>\nBe brief\n</note>"
    assert after.body["messages"][0]["content"][:2] == before.body["messages"][0]["content"]


def opaque(raw: str, **fields: Any) -> ProviderPart:
    """Return a part of Anthropic's own."""
    return ProviderPart(**{"provider": "anthropic", "model": "claude-opus-4-5", "raw": raw, **fields})


def test_what_anthropics_own_tools_did_goes_back_as_it_came() -> None:
    answer = AssistantMessage(agent="coder", parts=[opaque(SEARCH), opaque(FOUND), TextPart(text="found")])

    made = request(ASKED, answer, ASKED)

    assert made.body["messages"][1]["content"] == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "found"},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [opaque(SEARCH)],
        [opaque(FOUND)],
        [opaque(FOUND), opaque(SEARCH)],
        [opaque(SEARCH, provider="openai"), opaque(FOUND)],
        [opaque(SEARCH, model="claude-haiku-4-5"), opaque(FOUND, model="claude-haiku-4-5")],
        [opaque('{"type": "odd"}'), opaque("no json")],
        [opaque(SEARCH.replace("srvtoolu_1", "c1")), opaque(FOUND.replace("srvtoolu_1", "c1"))],
    ],
)
def test_a_call_without_its_result_or_of_another_family_is_left_out_by_a_rule(
    parts: list[ProviderPart],
) -> None:
    made = request(ASKED, AssistantMessage(agent="coder", parts=[*parts, TextPart(text="ok")]), ASKED)

    assert made.body["messages"][1]["content"] == [{"type": "text", "text": "ok"}]
    assert [run.rule for run in made.omissions] == ["opaque-not-carried"] * len(parts)


def test_a_result_that_came_twice_goes_back_once() -> None:
    parts = [opaque(SEARCH), opaque(FOUND), opaque(SEARCH), opaque(FOUND)]

    made = request(ASKED, AssistantMessage(agent="coder", parts=parts), ASKED)

    assert [block["type"] for block in made.body["messages"][1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
    ]
    assert [run.rule for run in made.omissions] == ["opaque-not-carried"] * 2


@pytest.mark.parametrize("name", ["max_tokens", "temperature", "top_p", "stop", "effort", "output"])
def test_a_parameter_that_is_malformed_is_left_out_by_a_rule(name: str) -> None:
    made = asking(**{name: {"odd": 1}}, thinking=thinking(2000))

    assert "odd" not in str(made.body)
    assert [run.rule for run in made.omissions] == ["parameter-not-carried"]


def test_the_cards_parameters_are_said_in_this_apis_words() -> None:
    asked: dict[str, Any] = {
        "max_tokens": 100,
        "temperature": 0.2,
        "stop": ["END"],
        "effort": "low",
        "output": {"name": "out", "schema": {"type": "object"}},
        "tool_choice": {"tool": "shell"},
        "parallel_tool_calls": False,
    }

    body = asking(**asked).body

    assert {key: body[key] for key in ("max_tokens", "temperature", "stop_sequences")} == {
        "max_tokens": 100,
        "temperature": 0.2,
        "stop_sequences": ["END"],
    }
    assert body["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}},
        "effort": "low",
    }
    assert body["tool_choice"] == {"type": "tool", "name": "shell", "disable_parallel_tool_use": True}


def test_one_call_at_a_time_is_a_choice_among_tools_too() -> None:
    one = {"type": "auto", "disable_parallel_tool_use": True}

    assert asking(parallel_tool_calls=False).body["tool_choice"] == one
    assert asking(parallel_tool_calls=False, tool_choice="none").body["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in asking(parallel_tool_calls=True).body


def thinking(budget: object) -> dict[str, object]:
    """Return parameters of thinking on a budget."""
    return {"type": "enabled", "budget_tokens": budget}


@pytest.mark.parametrize("choice", ["required", {"tool": "shell"}])
def test_who_thinks_on_a_budget_is_not_forced_to_call_a_tool(choice: object) -> None:
    made = asking(thinking=thinking(2000), tool_choice=choice)

    assert made.body["tool_choice"] == {"type": "auto"}
    assert "choice-freed" in [repair.rule for repair in made.repairs]


@pytest.mark.parametrize(
    ("budget", "limit", "sent", "mended"),
    [
        (2000, None, (2000, 6096), False),
        (2000, 3000, (2000, 3000), False),
        (2000, 1500, (2000, 3500), True),
        (100, None, (1024, 5120), True),
        ("much", 4000, (1024, 4000), True),
    ],
)
def test_a_thinking_budget_is_large_enough_and_leaves_room_for_an_answer(
    budget: object, limit: int | None, sent: tuple[int, int], mended: bool
) -> None:
    made = asking(thinking=thinking(budget), max_tokens=limit)

    assert (made.body["thinking"]["budget_tokens"], made.body["max_tokens"]) == sent
    assert ("thinking-mended" in [repair.rule for repair in made.repairs]) is mended


def test_a_model_that_paces_itself_is_given_no_budget_and_no_sampling() -> None:
    made = asking(model="claude-opus-4-7", thinking=thinking(2000), temperature=0.5, tool_choice="required")

    assert made.body["thinking"] == {"type": "adaptive"}
    assert made.body["tool_choice"] == {"type": "any"}
    assert "temperature" not in made.body
    assert [run.rule for run in made.omissions] == ["parameter-not-carried"]


def test_who_thinks_on_a_budget_is_given_no_temperature() -> None:
    made = asking(thinking=thinking(2000), temperature=0.5, top_p=0.97)

    assert "temperature" not in made.body
    assert made.body["top_p"] == 0.97


@pytest.mark.parametrize(
    ("part", "limit"),
    [
        (ImagePart(blob=PNG), 5 * 1024 * 1024),
        (FilePart(name="a.pdf", media_type="application/pdf", blob=PNG), 32 * 1024 * 1024),
    ],
)
def test_a_picture_or_a_file_larger_than_is_taken_is_a_line_of_text(
    part: ImagePart | FilePart, limit: int
) -> None:
    most = limit // 4 * 3
    seen = UserMessage(parts=[part])

    # A file of all that a request may have leaves no room for the rest of its body.
    fits = request(seen, blobs={PNG: bytes(most)}, allowed="pictures-and-bytes").body["messages"][0][
        "content"
    ][0]
    large = request(seen, blobs={PNG: bytes(most + 1)})

    assert fits["type"] in ("image", "document")
    assert large.body["messages"][0]["content"][0]["text"].endswith("is too large to be shown]")
    assert large.repairs[0].rule == "media-too-large"


def _spoiled(spoil: str) -> dict[str, Any]:
    """Return the body of a request with one thing in it that is refused."""
    wanted: dict[str, Any] = {"parameters": {"cache": True}, "tools": (SHELL,), "persona": "You are a coder."}
    answer = AssistantMessage(agent="coder", parts=[opaque(SEARCH), opaque(FOUND), TextPart(text="found")])
    body = request(ASKED, answer, *TURN, policy=BANNER, **wanted).body
    turns = body["messages"]
    match spoil:
        case "a system turn first":
            turns.insert(0, turns.pop())
        case "a system turn before the user's":
            turns.append(turns[0])
        case "a system turn behind the agent's":
            turns.insert(2, turns.pop())
        case "a picture in a system turn":
            turns[-1]["content"].append({"type": "image", "source": {"type": "url", "url": "https://x"}})
        case "a call of its own tools left open":
            del turns[1]["content"][1]
        case "a result of its own tools without a call":
            del turns[1]["content"][0]
        case "five breakpoints":
            body["tools"] = [SHELL_SHAPE | {"name": f"t{i}", "cache_control": MARK} for i in range(2)]
        case "a small budget":
            body["thinking"] = thinking(5)
        case _:
            body |= {"thinking": thinking(2000), "tool_choice": {"type": "any"}}
    return body


@needs_judges
@pytest.mark.parametrize(
    "spoil",
    [
        "a system turn first",
        "a system turn before the user's",
        "a system turn behind the agent's",
        "a picture in a system turn",
        "a call of its own tools left open",
        "a result of its own tools without a call",
        "five breakpoints",
        "a small budget",
        "a forced thinker",
    ],
)
def test_laws_and_judge_agree_on_what_is_refused(spoil: str) -> None:
    body = _spoiled(spoil)

    assert complaints("anthropic", body) != []
    assert list(validate("anthropic", body)) != []


@needs_judges
@pytest.mark.parametrize("model", ["claude-opus-4-5", "claude-opus-5"])
def test_the_judge_takes_breakpoints_and_system_turns_together(model: str) -> None:
    made = request(*TURN, calls("done"), ASKED, policy=BANNER, parameters={"cache": True}, model=model)

    assert complaints("anthropic", made.body) == []

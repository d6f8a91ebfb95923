"""Gemini's generateContent: who says what, what is signed, what a result may hold."""

from __future__ import annotations

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
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.parts import FilePart, ImagePart, ProviderPart, ReasoningPart
from stenolog.projections.formats.gemini.write import UNSIGNED, function_name
from stenolog.projections.requests import build
from tests.requests.given import ASKED, CALL, calls, log
from tests.requests.histories import PNG
from tests.requests.judging import complaints, needs_judges

PRO = "gemini-3-pro-preview"
SIGNED = ReasoningPart(text="Files.", provider="google", signature="c2ln")
RESULT = ToolResult(call_id="c1", text="a.py")


def request(*events: Event, model: str = PRO, blobs: dict[str, bytes] | None = None, **card: Any) -> Request:
    """Return the request on this API."""
    switch = ModeSwitch(cards={"coder": AgentCard(model=model, **card)})
    return build(log(switch, *events), "coder", api="gemini", blobs=blobs or {})


def said(made: Request) -> list[tuple[str, list[Any]]]:
    """Return role and parts of every content."""
    return [(content["role"], content["parts"]) for content in made.body["contents"]]


def answer(*parts: Any, model: str = "gemini-3-pro") -> AssistantMessage:
    """Return an answer of the coder by a model of Gemini's."""
    return AssistantMessage(agent="coder", parts=parts, model=model)


def test_the_whole_of_a_request_stands_in_the_words_of_the_rest_api() -> None:
    tool = Tool(name="shell", description="Runs a command", parameters={"type": "object"})

    made = request(ASKED, answer(SIGNED, CALL), RESULT, persona="You are a coder.", tools=(tool,))

    declared = {
        "name": "shell",
        "description": "Runs a command",
        "parametersJsonSchema": {"properties": {}, "type": "object"},
    }
    called = {"id": "c1", "name": "shell", "args": {"cmd": "ls"}}
    answered = {"id": "c1", "name": "shell", "response": {"output": "a.py"}}
    assert made.body == {
        "model": PRO,
        "systemInstruction": {"parts": [{"text": "You are a coder."}]},
        "tools": [{"functionDeclarations": [declared]}],
        "contents": [
            {"role": "user", "parts": [{"text": "List the files"}]},
            {"role": "model", "parts": [{"functionCall": called, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": answered}]},
        ],
    }


def test_a_signature_goes_back_on_the_part_that_stands_behind_it_and_the_thought_stays() -> None:
    made = request(ASKED, answer(SIGNED, TextPart(text="ok"), CALL), RESULT, model="gemini-3-pro")

    parts = made.body["contents"][1]["parts"]
    assert parts[0] == {"text": "ok", "thoughtSignature": "c2ln"}
    assert parts[1]["thoughtSignature"] == UNSIGNED
    assert "Files." not in str(made.body)
    assert [run.rule for run in made.omissions] == ["reasoning-not-carried"]


def test_a_signature_with_nothing_behind_it_signs_the_empty_text_that_a_stream_ends_with() -> None:
    made = request(ASKED, answer(TextPart(text="ok"), SIGNED), ASKED)

    assert said(made)[1] == ("model", [{"text": "ok"}, {"text": "", "thoughtSignature": "c2ln"}])


def test_an_answer_that_is_nothing_but_a_thought_is_left_out() -> None:
    made = request(ASKED, answer(SIGNED), ASKED)

    assert [role for role, _ in said(made)] == ["user"]
    assert [run.rule for run in made.omissions] == ["trailing-thinking"]


@pytest.mark.parametrize(
    ("thought", "model"),
    [
        (SIGNED, "gemini-3-flash"),
        (SIGNED, "claude-opus-5"),
        (ReasoningPart(text="hm", provider="anthropic", signature="sig"), "gemini-3-pro"),
        (ReasoningPart(text="hm", provider="google"), "gemini-3-pro"),
    ],
)
def test_a_signature_goes_back_to_the_provider_and_the_family_that_made_it_alone(
    thought: ReasoningPart, model: str
) -> None:
    made = request(ASKED, answer(thought, CALL, model=model), RESULT)

    assert said(made)[1][1][0]["thoughtSignature"] == UNSIGNED
    assert [run.rule for run in made.omissions] == ["foreign-reasoning"]
    assert [part.rule for part in made.parts if part.role == "assistant"] == ["unsigned-call"]


def test_of_several_calls_the_first_is_marked_as_not_signed_in_every_turn_of_the_conversation() -> None:
    both = calls("", CALL, ToolCall(id="c2", name="shell"), model="gpt-5")
    results = (RESULT, ToolResult(call_id="c2", text="b.py"))

    made = request(ASKED, both, *results, calls("done"), ASKED, both, *results)

    marks = [
        part.get("thoughtSignature") for _, parts in said(made) for part in parts if "functionCall" in part
    ]
    assert marks == [UNSIGNED, None, UNSIGNED, None]


def test_before_version_3_no_call_has_to_be_signed() -> None:
    made = request(ASKED, calls("", CALL, model="gpt-5"), RESULT, model="gemini-2.5-pro")

    assert "thoughtSignature" not in str(made.body)


def test_results_stand_alone_and_what_the_user_says_behind_them_in_the_next_content() -> None:
    note = UserMessage(text="Be brief", author_kind="system")

    made = request(ASKED, answer(SIGNED, CALL), RESULT, note, UserMessage(text="and now?"))

    assert [(role, len(parts)) for role, parts in said(made)] == [
        ("user", 1),
        ("model", 1),
        ("user", 1),
        ("user", 2),
    ]
    assert said(made)[3][1][0] == {"text": "<note>\nBe brief\n</note>"}


def test_a_failed_tool_answers_with_an_error_and_a_silent_one_says_that_it_is() -> None:
    two = (answer(SIGNED, CALL), ToolResult(call_id="c1", text="no such file", is_error=True))

    made = request(ASKED, *two, calls("", CALL), ToolResult(call_id="c1", is_error=True))

    responses = [part["functionResponse"]["response"] for part in (said(made)[2][1][0], said(made)[4][1][0])]
    assert responses == [{"error": "no such file"}, {"error": "[no output]"}]


def test_a_picture_in_a_result_stays_in_it_from_version_3_on_and_follows_the_results_before() -> None:
    shown = ToolResult(call_id="c1", parts=[TextPart(text="see"), ImagePart(blob=PNG)])
    picture = {"inlineData": {"mimeType": "image/png", "data": "cG5n"}}

    new = request(ASKED, answer(SIGNED, CALL), shown, blobs={PNG: b"png"})
    old = request(ASKED, answer(SIGNED, CALL), shown, blobs={PNG: b"png"}, model="gemini-2.5-pro")

    assert said(new)[2][1][0]["functionResponse"]["parts"] == [picture]
    assert said(old)[2][1][0]["functionResponse"]["response"] == {
        "output": "see\n[image (image/png) shown below]"
    }
    assert said(old)[3] == ("user", [picture])


def test_files_go_as_bytes_or_by_their_address_and_what_is_not_taken_as_a_line_of_text() -> None:
    url = "https://example.org/a.pdf"
    files: list[ImagePart | FilePart] = [
        FilePart(name="a.pdf", media_type="application/pdf", url=url),
        FilePart(name="a.csv", media_type="text/csv", blob=PNG),
        ImagePart(media_type="image/gif", blob=PNG),
        ImagePart(blob="1" * 64),
    ]

    made = request(UserMessage(parts=files), blobs={PNG: b"x"})

    assert said(made)[0][1] == [
        {"fileData": {"mimeType": "application/pdf", "fileUri": url}},
        {"text": "[file a.csv (text/csv) is not shown]"},
        {"text": "[image (image/gif) is not shown]"},
        {"text": "[image (image/png) is not available]"},
    ]


@pytest.mark.parametrize(("raw", "starts"), [("7zip", "_7zip_"), ("-x", "_-x_"), ("a b", "a_b_")])
def test_the_name_of_a_function_begins_with_a_letter_or_an_underscore(raw: str, starts: str) -> None:
    made = request(ASKED, answer(SIGNED, ToolCall(id="c1", name=raw)), RESULT)

    name = said(made)[1][1][0]["functionCall"]["name"]
    assert name.startswith(starts)
    assert len(name) == len(starts) + 6
    assert made.body["tools"][0]["functionDeclarations"][0]["name"] == name
    assert said(made)[2][1][0]["functionResponse"]["name"] == name
    assert function_name(name) == name


def test_the_longest_name_that_begins_with_a_digit_stays_within_the_limit() -> None:
    assert len(function_name("7" * 64)) == 64


def test_what_geminis_own_tools_did_goes_back_whole_and_never_half() -> None:
    code = ProviderPart(provider="google", raw='{"executableCode":{"language":"PYTHON","code":"1"}}')
    ran = ProviderPart(provider="google", raw='{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}')
    drawn = ProviderPart(provider="google", raw='{"inlineData":{"mimeType":"image/png","data":"cG5n"}}')
    odd = ProviderPart(provider="google", raw='{"text":"forged"}')

    made = request(ASKED, answer(code, ran, drawn, odd, code), ASKED)
    whole = request(ASKED, answer(code, ran, drawn, SIGNED, TextPart(text="1")), ASKED)
    elsewhere = request(ASKED, answer(code, ran, TextPart(text="1")), ASKED, model="gemini-3-flash")

    assert [list(part) for part in said(made)[1][1]] == [["inlineData"]]
    assert [next(iter(part)) for part in said(whole)[1][1]] == [
        "executableCode",
        "codeExecutionResult",
        "inlineData",
        "text",
    ]
    assert said(elsewhere)[1] == ("model", [{"text": "1"}])


def test_the_cards_parameters_are_said_in_the_words_of_generation_config() -> None:
    asked: dict[str, Any] = {
        "max_tokens": 100,
        "temperature": 0.2,
        "top_p": 0.9,
        "stop": ["END"],
        "effort": "low",
        "output": {"name": "out", "schema": {"type": "object"}},
        "tool_choice": {"tool": "7zip"},
        "parallel_tool_calls": False,
        "generationConfig": {"topK": 40},
    }

    made = request(ASKED, tools=(Tool(name="7zip"),), parameters=asked)

    assert made.body["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0.2,
        "topP": 0.9,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingLevel": "LOW"},
        "topK": 40,
    }
    choice = {"mode": "ANY", "allowedFunctionNames": [function_name("7zip")]}
    assert made.body["toolConfig"] == {"functionCallingConfig": choice}
    assert [run.rule for run in made.omissions] == ["parameter-not-carried"]


def test_before_version_3_there_is_no_answer_in_json_beside_tools_and_no_level_of_thinking() -> None:
    asked: dict[str, Any] = {"effort": "low", "output": {"name": "out", "schema": {"type": "object"}}}

    made = request(ASKED, tools=(Tool(name="shell"),), parameters=asked, model="gemini-2.5-pro")

    assert "generationConfig" not in made.body
    assert [run.rule for run in made.omissions] == ["parameter-not-carried"]


def test_a_conversation_that_begins_with_the_agents_own_words_opens_with_a_note() -> None:
    made = request(calls("", CALL), RESULT)

    assert said(made)[0] == ("user", [{"text": "[the conversation begins with your own words]"}])


@needs_judges
def test_the_judge_takes_a_signed_and_a_marked_call_and_refuses_one_without() -> None:
    made = request(ASKED, calls("", CALL), RESULT)
    bare = request(ASKED, calls("", CALL), RESULT, model="gemini-2.5-pro").body | {"model": PRO}

    assert complaints("gemini", made.body) == []
    assert len(complaints("gemini", bare)) == 1

"""Answers of a type: what does not fit is refused and asked for again, and all of it is in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, LlmError, Log, Team, ToolCall, ToolResult
from stenolog.engine import AgentTool, Output, Replay
from stenolog.errors import CallerError, ModelError
from stenolog.models import ModelRequest, Scripted
from stenolog.projections.formats import format_of
from stenolog.testing import crash_points
from stenolog.tools import tool
from tests.engine.given import Clock, answers, errors, opened, run, run_team
from tests.requests.judging import MODELS, needs_judges, refused

BAD, GOOD = '{"loaves": "many"}', '{"loaves": 3, "bread": "rye"}'


class Order(BaseModel):
    loaves: Annotated[int, Field(ge=1)]
    bread: Literal["rye", "wheat"] = "rye"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"loaves": {"type": "integer", "minimum": 1}, "bread": {"type": "string"}},
    "required": ["loaves"],
}


def ordered(loaves: int, bread: str = "rye") -> Order:
    """Order bread."""
    if loaves > 100:
        raise ValueError("at most 100")
    return Order(loaves=loaves, bread=bread)  # type: ignore[arg-type]


class Form(NamedTuple):
    """An output, whether it is given by a call, and the value that it makes of `GOOD`."""

    output: Any
    by_call: bool
    value: object


ORDER = Order(loaves=3)
FORMS = {
    "a class": Form(Order, False, ORDER),
    "a class by a tool": Form(Output(Order, tool=True), True, ORDER),
    "a schema": Form(SCHEMA, False, {"loaves": 3, "bread": "rye"}),
    "a schema by a tool": Form(Output(SCHEMA, tool=True), True, {"loaves": 3, "bread": "rye"}),
    "a function": Form(ordered, True, ORDER),
    "a tool": Form(tool(ordered), True, ORDER),
}


def said(form: Form, *texts: str) -> list[Any]:
    """Return the turns of a model that gives these answers in a form."""
    name = Output(form.output).called if not isinstance(form.output, Output) else form.output.called
    if not form.by_call:
        return list(texts)
    return [ToolCall(id=f"o{nth}", name=name, arguments=text) for nth, text in enumerate(texts)]


def ask(conversation: Conversation, output: Any, *turns: Any, **options: Any) -> Any:
    return run(Team([Agent("coder", llm=Scripted(*turns), output=output)]).ask(conversation, "Go", **options))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_answer_that_does_not_fit_is_asked_for_again_and_the_object_returned(
    form: Form, tmp_path: Path
) -> None:
    with opened(tmp_path / "a.db") as demo:
        value = ask(demo, form.output, "no JSON", *said(form, BAD, GOOD), id="m1")

        assert (value, type(value)) == (form.value, type(form.value))
        # Every answer is there once, and the lane is at rest.
        assert len([*demo.entries()]) == (7 if form.by_call else 5)
        assert demo.state().lane("coder").status == "idle"
        # What an earlier run gave is read from the log.
        assert ask(demo, form.output, id="m1") == form.value


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_after_the_last_try_the_lane_fails_with_the_reason(form: Form, tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        with pytest.raises(ModelError, match=r"expected (a valid )?integer"):
            ask(demo, form.output, *said(form, BAD, BAD, BAD, GOOD))

        assert demo.state().lane("coder").status == "failed"
        assert errors(demo)[-1].category == "invalid_response"


def test_tries_are_counted_anew_for_each_message(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as demo:
        agent = Agent("coder", llm=Scripted(BAD, GOOD, BAD, GOOD), output=Output(Order, tries=2))

        assert [run(Team([agent]).ask(demo, "Go")) for _ in range(2)] == [ORDER, ORDER]
        assert [error.attempt for error in errors(demo)] == [1, 1]


@needs_judges
@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_requests_after_refusals_are_valid_and_show_the_answer_with_the_reason(
    form: Form, api: str, tmp_path: Path
) -> None:
    model = Scripted("no JSON", *said(form, BAD, GOOD), api=api, name=MODELS[api])
    with opened(tmp_path / "a.db") as demo:
        assert run(Team([Agent("coder", llm=model, output=form.output)]).ask(demo, "Go")) == form.value

        bodies = [prompt.body for prompt in model.prompts]
        assert [found for body in bodies for found in refused(api, body)] == []
        assert all(text in json.dumps(bodies[-1]) for text in ("no JSON", "was not accepted", "many"))
        assert [refused(api, demo.request("coder", at, api).body) for at in range(2, demo.position)] == [
            [] for _ in range(2, demo.position)
        ]


def test_the_provider_is_sent_the_schema_if_it_takes_one() -> None:
    taking = {
        ("openai-chat", "gpt-5", True),
        ("openai-responses", "gpt-5", True),
        ("anthropic", "claude-opus-5", True),
        ("anthropic", "claude-sonnet-4-5-20250929", True),
        ("gemini", "gemini-3-pro", True),
        ("gemini", "gemini-2.5-pro", False),
        ("cohere", "command-a-03-2025", False),
    }
    others = {
        ("anthropic", "claude-3-5-sonnet-latest", False),
        ("anthropic", "claude-sonnet-4-20250514", False),
        ("gemini", "gemini-2.5-pro", True),
        ("cohere", "command-a-03-2025", True),
        ("plain", "", False),
    }

    assert [case for case in taking if not format_of(case[0]).takes_schema(*case[1:])] == []
    assert [case for case in others if format_of(case[0]).takes_schema(*case[1:])] == []


def test_the_schema_of_a_class_is_one_that_every_provider_takes() -> None:
    class Item(BaseModel):
        name: str = Field(min_length=1, description="Of the bread")

    class Many(BaseModel):
        items: list[Item]
        first: Item | None

    assert Output(Many).parameter == {
        "name": "final_answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
                "first": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
            },
            "required": ["items", "first"],
            "additionalProperties": False,
            "$defs": {
                "Item": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "Of the bread (minLength: 1)"}},
                    "required": ["name"],
                    "additionalProperties": False,
                }
            },
        },
    }
    assert "strict" not in Output(Order).parameter


def test_a_schema_among_the_parameters_is_checked_too(tmp_path: Path) -> None:
    given = {"output": {"name": "order", "schema": SCHEMA}}
    with opened(tmp_path / "a.db") as demo:
        agent = Agent("coder", llm=Scripted("no JSON", '{"loaves": 0}', GOOD), parameters=given)

        assert run(Team([agent]).ask(demo, "Go")) == {"loaves": 3, "bread": "rye"}
        assert "0" in errors(demo)[1].message


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"shape": int}, "expected the schema of an object"),
    ({"shape": {"type": "string"}}, "expected the schema of an object"),
    ({"shape": Order, "name": "an order"}, "expected a tool's name"),
    ({"shape": Order, "tries": 0}, "tries: expected at least 1, found 0"),
    ({"shape": object()}, "expected"),
    ({"shape": lambda *fields: fields}, "expected"),
]


@pytest.mark.parametrize(("given", "says"), UNFIT, ids=map(str, range(len(UNFIT))))
def test_an_output_that_no_provider_takes_is_refused_with_the_reason(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(CallerError, match=says):
        Output(**given)
    with pytest.raises(CallerError, match="agent 'coder': parameters: give a class by output="):
        Agent("coder", llm=Scripted(), parameters={"output": Order})


def test_an_answer_is_checked_after_the_tools_that_it_called(tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "three"

    with opened(tmp_path / "a.db") as demo:
        agent = Agent(
            "coder",
            llm=Scripted(["I look.", ToolCall(id="c1", name="look")], GOOD),
            tools=[look],
            output=Order,
        )

        assert run(Team([agent]).ask(demo, "Go")) == ORDER
        assert errors(demo) == []


def test_a_worker_gives_its_caller_the_output_as_json(tmp_path: Path) -> None:
    call = ToolCall(id="o1", name="ordered", arguments=GOOD)
    worker = Agent("clerk", llm=Scripted(call), output=ordered)
    task = ToolCall(id="t1", name="ask_clerk", arguments='{"task": "Order."}')
    with opened(tmp_path / "a.db") as demo:
        run(Team([Agent("lead", llm=Scripted(task, "Done."), tools=[AgentTool(worker)])]).ask(demo, "Go"))

        results = [entry.event for entry in demo.entries() if isinstance(entry.event, ToolResult)]
        assert [json.loads(result.text) for result in results] == [json.loads(GOOD)]


@pytest.mark.parametrize("turns", [(BAD, GOOD), (BAD, BAD, BAD)], ids=["taken", "refused"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_replay_takes_verdicts_from_the_record_and_calls_no_function(
    form: Form, turns: tuple[str, ...], tmp_path: Path
) -> None:
    ran = []

    def counted(loaves: int, bread: str = "rye") -> Order:
        """Order bread."""
        ran.append(loaves)
        return ordered(loaves, bread)

    output = Output(counted, name="ordered") if form.by_call and callable(form.output) else form.output
    agent = Agent("coder", llm=Scripted(*said(form, *turns)), output=output)
    with stenolog.open(tmp_path / "a.db") as log:
        run(run_team(Team([agent]), log["demo"], "Go"))
        before = len(ran)
        recording = Replay(log["demo"])
        run(run_team(Team([recording.agent(agent)]), log["again"], "Go"))

        assert (recording.remaining, len(ran)) == (0, before)
        assert seen(log["again"]) == seen(log["demo"])


def seen(conversation: Conversation) -> list[tuple[Any, ...]]:
    """Return what is said in a conversation, and the verdicts."""
    found = (entry.event for entry in conversation.entries(after=1))
    return [(event.kind, getattr(event, "parts", ()), getattr(event, "meta", {})) for event in found]


def often(form: Form) -> Callable[[ModelRequest], object]:
    """Return a model that first gives what does not fit, by what it is shown."""
    bad, good = said(form, BAD, GOOD)

    def turn(prompt: ModelRequest) -> object:
        return good if "many" in json.dumps(prompt.body["messages"]) else bad

    return turn


@pytest.mark.parametrize("form", ["a class", "a function"])
def test_a_run_that_is_killed_anywhere_asks_again_and_ends_with_the_object(form: str, tmp_path: Path) -> None:
    it = FORMS[form]

    def team(clock: Clock) -> Team:
        output = Output(ordered if it.by_call else Order)
        output = Output(tool(repeat="safe")(ordered)) if it.by_call else output
        return Team([Agent("coder", llm=Scripted(often(it), endless=True), output=output)], world=clock.world)

    def begin(log: Log) -> None:
        run(team(Clock()).ask(log["demo"], "Go", id="m1"))

    for point in crash_points(begin, tmp_path, clock=Clock()):
        clock = Clock()
        with stenolog.open(point.path, clock=clock) as log:
            assert run(team(clock).ask(log["demo"], "Go", id="m1")) == it.value, point.when
            taken = [e for e in answers(log["demo"]) if not isinstance(e, LlmError)]
            assert len([*accepted(taken)]) == 1, point.when


def accepted(found: list[AssistantMessage]) -> Iterator[AssistantMessage]:
    return (answer for answer in found if "many" not in json.dumps([str(part) for part in answer.parts]))


def test_a_provider_that_takes_no_schema_beside_tools_is_given_a_tool_beside_hand_offs_too() -> None:
    gemini = Scripted(api="gemini", name="gemini-2.5-pro")

    assert not Agent("coder", llm=gemini, output=Order).gives_by_tool
    assert Agent("coder", llm=gemini, output=Order, handoffs=["seller"]).gives_by_tool

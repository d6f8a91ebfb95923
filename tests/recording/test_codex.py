"""Codex: tools among its items, requests that go on from a stored response, items that are numbered anew."""

from __future__ import annotations

from typing import Any

import pytest

from stenolog import AssistantMessage, ModeSwitch
from stenolog.apps.inspect.request_view.marks import RequestMarks
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.projections.analysis.drift import drift
from stenolog.projections.analysis.explain import explain
from stenolog.projections.analysis.text_fate import text_fate
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.as_sent import SentForms
from tests.recording.given import PATHS, Tap, outcomes, sse

HEADERS = {"user-agent": "codex_exec/0.169.0", "session_id": "s-1"}
NAMES = {"exec", "wait", "sleep"}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: SOURCE"}


def function(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"seconds": {"type": "integer"}}}
    return {"type": "function", "name": name, "description": f"{name}.", "parameters": parameters}


TOOLS = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "description": "",
            "tools": [{"type": "custom", "name": "exec", "format": GRAMMAR}, function("wait")],
        },
        {"type": "namespace", "name": "clock", "description": "Time.", "tools": [function("sleep"), "odd"]},
    ],
}


class Codex:
    """A session of Codex behind a tap; each run of the program numbers the items of its history anew."""

    def __init__(self) -> None:
        self.tap, self.run, self.turn = Tap(headers=HEADERS), 0, 0

    def message(self, text: str, role: str = "user") -> dict[str, Any]:
        """Return a message with an id and a time of this run's."""
        self.turn += 1
        kind = "output_text" if role == "assistant" else "input_text"
        noted = {"turn_id": f"run-{self.run}", "create_time": float(self.turn)}
        return {
            "type": "message",
            "id": f"msg-{self.run}-{self.turn}",
            "role": role,
            "content": [{"type": kind, "text": text}],
            "internal_chat_message_metadata_passthrough": noted,
        }

    def history(self, *said: tuple[str, str]) -> list[dict[str, Any]]:
        """Return the whole history, as a new run of the program sends it."""
        self.run += 1
        opening = [{**TOOLS, "id": f"at-{self.run}"}, self.message("You are Codex.", "developer")]
        return [*opening, *(self.message(text, role) for role, text in said)]

    def ask(
        self, items: list[dict[str, Any]], answer: str, previous: str = "", thought: Any = None, **fields: Any
    ) -> str:
        """Send items, to what the provider has stored if `previous` says so; return the answer's id."""
        return self.end(self.begin(items, previous, **fields), answer, thought)

    def begin(self, items: list[dict[str, Any]], previous: str, **fields: Any) -> RecordedExchange:
        """Send items, and have no answer yet."""
        body = {"model": "gpt-6-sol", "input": items, "tool_choice": "auto", "parallel_tool_calls": False}
        body |= {**fields, "stream": True} | ({"previous_response_id": previous} if previous else {})
        exchange = self.tap.exchange(body, path=PATHS["openai-responses"])
        self.tap.recording.request(exchange)
        return exchange

    def end(self, exchange: RecordedExchange, answer: str, thought: Any = None) -> str:
        """Answer a request; return the answer's id."""
        id = f"resp-{exchange.id}"
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        output = [{"type": "message", "id": f"out-{id}", "role": "assistant", "content": content}]
        output = [thought, *output] if thought else output
        response = {"id": id, "model": "gpt-6-sol", "status": "completed", "output": output}
        self.tap.answer(exchange, sse({"type": "response.completed", "response": response}))
        return id

    def fail(self, items: list[dict[str, Any]], previous: str) -> None:
        """Send items, and get no answer to them."""
        self.tap.answer(self.begin(items, previous), b"overloaded", status=529)

    @property
    def said(self) -> list[str]:
        return [words for _, words in self.tap.told()]

    @property
    def shown(self) -> str:
        """The messages of the last request, as stenolog builds it."""
        at = self.tap.conversation.position - 1
        return str(self.tap.conversation.request("codex", at=at, api="openai-responses").body["input"])

    @property
    def switches(self) -> list[ModeSwitch]:
        return [e.event for e in self.tap.entries() if isinstance(e.event, ModeSwitch)]


@pytest.fixture
def codex() -> Codex:
    return Codex()


def test_tools_among_the_items_are_on_the_card_and_are_nobodys_words(codex: Codex) -> None:
    codex.ask(codex.history(("user", "Hi.")), "Hello.")

    (card,) = codex.tap.conversation.settings().cards.values()
    assert {tool.name for tool in card.tools or ()} == NAMES
    free = next(tool for tool in card.tools or () if tool.name == "exec")
    schema: Any = free.parameters
    assert schema["properties"]["input"]["x-format"] == GRAMMAR
    assert card.parameters == {"tool_choice": "auto", "parallel_tool_calls": False}
    assert codex.said == ["You are Codex.", "Hi.", "Hello."]
    assert outcomes(codex.tap.proofs()) == {"same"}


def test_what_goes_on_from_the_last_response_hides_nothing_and_keeps_the_tools(codex: Codex) -> None:
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    second = codex.ask([codex.message("And now?")], "Now that.", first)
    codex.ask([codex.message("And then?")], "Then this.", second)

    said = ["You are Codex.", "Hi.", "Hello.", "And now?", "Now that.", "And then?"]
    assert codex.said == [*said, "Then this."]
    assert len(codex.switches) == 1
    at = codex.tap.conversation.position - 1
    built = codex.tap.conversation.request("codex", at=at, api="openai-responses").body
    assert [words for words in said if words not in str(built["input"])] == []
    assert len(built["tools"]) == len(NAMES)
    assert outcomes(codex.tap.proofs()) == {"same"}


@pytest.mark.parametrize("is_new_recorder", [False, True], ids=["one tap", "a tap for each run"])
def test_what_a_new_run_says_again_with_other_ids_is_not_in_the_log_twice(
    is_new_recorder: bool, codex: Codex
) -> None:
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    codex.ask([codex.message("Yes")], "Good.", first)
    if is_new_recorder:
        codex.tap.restarted()
    before = (("user", "Hi."), ("assistant", "Hello."), ("user", "Yes"), ("assistant", "Good."))
    codex.ask(codex.history(*before, ("user", "Yes")), "Very good.")

    assert codex.said == ["You are Codex.", "Hi.", "Hello.", "Yes", "Good.", "Yes", "Very good."]
    assert [switch.hides for switch in codex.switches if switch.joins == ()] == []
    assert outcomes(codex.tap.proofs()) == {"same"}


def test_a_request_that_goes_on_from_an_older_response_lacks_what_came_after_it(codex: Codex) -> None:
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    codex.ask([codex.message("And now?")], "Now that.", first)
    codex.ask([codex.message("Or else?")], "Else this.", first)

    answers = [e.event.text for e in codex.tap.entries() if isinstance(e.event, AssistantMessage)]
    at = codex.tap.conversation.position - 1
    shown = str(codex.tap.conversation.request("codex", at=at, api="openai-responses").body["input"])
    assert answers == ["Hello.", "Now that.", "Else this."]
    assert [words in shown for words in ("Hi.", "Hello.", "And now?", "Now that.", "Or else?")] == [
        *(True, True, False, False, True)
    ]
    assert outcomes(codex.tap.proofs()) == {"same"}


@pytest.mark.parametrize("is_new_recorder", [False, True], ids=["one tap", "another tap"])
def test_a_failed_request_that_is_sent_again_says_nothing_twice(is_new_recorder: bool, codex: Codex) -> None:
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    question = [codex.message("And now?")]
    codex.fail(question, first)
    if is_new_recorder:
        codex.tap.restarted()
    codex.ask(question, "Now that.", first)

    assert codex.said == ["You are Codex.", "Hi.", "Hello.", "And now?", "", "Now that."]
    assert outcomes(codex.tap.proofs()) == {"same"}


@pytest.mark.parametrize("is_new_recorder", [False, True], ids=["one tap", "another tap"])
def test_what_goes_on_from_a_warm_up_is_the_whole_history(is_new_recorder: bool, codex: Codex) -> None:
    warm = codex.ask([], "", generate=False)
    codex.ask(codex.history(("user", "Hi.")), "Hello.", warm)
    warm = codex.ask([], "", generate=False)
    if is_new_recorder:
        codex.tap.restarted()
    before = (("user", "Hi."), ("assistant", "Hello."))
    codex.ask(codex.history(*before, ("user", "And now?")), "Now that.", warm)

    assert [words for words in codex.said if words] == [
        "You are Codex.",
        "Hi.",
        "Hello.",
        "And now?",
        "Now that.",
    ]
    assert outcomes(codex.tap.proofs()) == {"same"}


def test_each_of_two_parallel_answers_is_stored_with_its_own_history(codex: Codex) -> None:
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    bread = codex.begin([codex.message("Bake bread.")], first)
    buns = codex.begin([codex.message("Bake buns.")], first)
    stored = codex.end(bread, "Bread baked.")
    codex.end(buns, "Buns baked.")
    codex.ask([codex.message("Slice it.")], "Sliced.", stored)

    said = ("Hi.", "Bake bread.", "Bread baked.", "Bake buns.", "Buns baked.", "Slice it.")
    assert [words for words in said if words not in codex.shown] == ["Bake buns.", "Buns baked."]


@pytest.mark.parametrize("is_new_recorder", [False, True], ids=["one tap", "another tap"])
def test_any_answer_of_a_session_can_be_gone_on_from(is_new_recorder: bool, codex: Codex) -> None:
    first = last = codex.ask(codex.history(("user", "Hi.")), "Hello.")
    for number in range(20):
        last = codex.ask([codex.message(f"And {number}?")], f"Answer {number}.", last)
    if is_new_recorder:
        codex.tap.restarted()
    codex.ask([codex.message("Or else?")], "Else this.", first)

    said = ["You are Codex.", "Hi.", "Hello.", "Or else?"]
    assert [words for words in codex.said if words in codex.shown] == said


def test_thoughts_that_only_an_id_tells_apart_are_not_taken_for_one_another(codex: Codex) -> None:
    history = [codex.message("Today is Monday.", "developer"), codex.message("How many loaves?")]
    for number, words in enumerate(("And buns?", "And rolls?", "Thanks.")):
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        codex.ask(history, f"It is {number}.", thought=thought)
        history += [thought, codex.message(f"It is {number}.", "assistant"), codex.message(words)]
    history[0] = codex.message("Today is Tuesday.", "developer")
    codex.ask(history, "Welcome.")

    persons = ["How many loaves?", "And buns?", "And rolls?", "Thanks."]
    assert [words for words in codex.said if words in persons] == persons
    assert outcomes(codex.tap.proofs()) == {"same"}


def test_words_behind_something_new_are_new_unless_a_known_answer_follows(codex: Codex) -> None:
    opening = [codex.message("You are Codex.", "developer"), codex.message("Fix the oven.")]
    codex.ask(opening, "It is fixed.")
    codex.ask(
        [*opening, codex.message("It is fixed.", "assistant"), codex.message("continue")], "Bread is in."
    )
    codex.ask(
        [opening[0], codex.message("What was done so far: …"), codex.message("continue")], "Buns are in."
    )

    assert codex.said[-5:] == [
        "continue",
        "Bread is in.",
        "What was done so far: …",
        "continue",
        "Buns are in.",
    ]


def test_a_sub_agent_without_an_id_goes_on_in_its_lane_by_its_response(codex: Codex) -> None:
    main, other = ({"instructions": words * 30} for words in ("You bake. ", "You look into ovens. "))
    codex.ask([codex.message("Hi.")], "Hello.", **main)
    first = codex.ask([codex.message("Look, and report.")], "One loaf.", **other)
    second = codex.ask([codex.message("And the other oven?")], "Two loaves.", first, **other)
    codex.ask([codex.message("And the third?")], "None.", second, **other)

    agents = [e.event.agent for e in codex.tap.entries() if isinstance(e.event, AssistantMessage)]
    assert len(set(agents)) == 2
    assert len(set(agents[1:])) == 1


def test_no_tools_are_none_and_those_among_the_items_stay(codex: Codex) -> None:
    view: Any = {"tools": [function("view")]}
    first = codex.ask(codex.history(("user", "Hi.")), "Hello.", **view)
    second = codex.ask([codex.message("Go on.")], "Ok.", first, **view)
    both = codex.tap.conversation.settings().cards["codex"]
    codex.ask([codex.message("And now?")], "Well.", second, tools=[])
    one = codex.tap.conversation.settings().cards["codex"]

    assert both is not None
    assert one is not None
    assert {tool.name for tool in both.tools or ()} == {*NAMES, "view"}
    assert {tool.name for tool in one.tools or ()} == NAMES


@pytest.mark.parametrize("is_new_recorder", [False, True], ids=["one tap", "another tap"])
def test_behind_a_warm_up_with_instructions_nothing_is_recorded_twice(
    is_new_recorder: bool, codex: Codex
) -> None:
    instructions = [codex.message("You are a coding agent.", "developer")]
    warm = codex.ask(instructions, "", generate=False)
    codex.ask([codex.message("Hi.")], "Hello.", warm)
    if is_new_recorder:
        codex.tap.restarted()
    warm = codex.ask(instructions, "", generate=False)
    before = [codex.message("Hi."), codex.message("Hello.", "assistant")]
    codex.ask([*before, codex.message("And now?")], "Now that.", warm)

    said = [words for words in codex.said if words]
    assert said == ["You are a coding agent.", "Hi.", "Hello.", "And now?", "Now that."]


def test_a_warm_up_of_each_run_changes_nothing_of_what_is_in_context(codex: Codex) -> None:
    instructions, history = [codex.message("You are a coding agent.", "developer")], list[dict[str, Any]]()
    for run in range(4):
        warm = codex.ask(instructions, "", generate=False)
        history.append(codex.message(f"Question {run}?"))
        codex.ask(history, f"Answer {run}.", warm)
        history.append(codex.message(f"Answer {run}.", "assistant"))
        codex.tap.restarted()

    assert len(codex.switches) == 1
    assert codex.tap.conversation.settings().cards.keys() == {"codex"}
    assert outcomes(codex.tap.proofs()) == {"same"}


def test_the_words_of_a_warm_up_are_those_of_the_prompt_after_it() -> None:
    over_http, over_websocket = Codex(), Codex()
    prompt = [Codex().message(words, "developer") for words in ("You are a coding agent.", "<skills> None.")]
    over_http.ask([*prompt, over_http.message("Hi.")], "Hello.")
    warm = over_websocket.ask(prompt[:1], "", generate=False)
    over_websocket.ask([prompt[1], over_websocket.message("Hi.")], "Hello.", warm)

    assert "You are a coding agent." in over_websocket.shown
    logs = (codex.tap.conversation.entries() for codex in (over_http, over_websocket))
    ((main,),) = (role.versions for role in drift([(f"c-{n}", log) for n, log in enumerate(logs)]))
    assert (main.requests, main.prompt) == (2, "You are a coding agent.\n\n<skills> None.")


def test_what_the_provider_holds_with_a_response_is_had_by_the_model(codex: Codex) -> None:
    last = ""
    for question in ("The word is SWORDFISH.", "And now?", "And then?"):
        last = codex.ask([codex.message(question)], f"To {question}", last)
    entries = codex.tap.entries()
    told = text_fate(entries, "codex", "SWORDFISH", api="openai-responses")
    unknown = text_fate(entries, "codex", "WHALE", api="openai-responses")
    (lane,) = explain(entries, 2).lanes
    built = codex.tap.conversation.request("codex", at=6, api="openai-responses")
    sent = SentForms(entries, LaneId("codex")).form(built)

    assert (told.verdict, told.runs) == ("still in", ((2, entries[-1].position),))
    assert unknown.verdict == "never in"
    assert [stretch.form.fate for stretch in lane.stretches] == ["kept", "held", "kept"]
    assert [(run.first, run.rule, run.what) for run in sent.omissions] == [
        (position, "held", "resp-run-2") for position in (2, 3, 4, 5)
    ]
    assert [part.positions for part in sent.parts if part.message >= 0] == [(6,)]
    assert RequestMarks(sent).runs == {"kept": [(2, 6)]}


@pytest.mark.parametrize("is_list", [True, False], ids=["items", "a text"])
def test_what_an_older_response_lacks_is_not_had_by_the_model(is_list: bool, codex: Codex) -> None:
    first = codex.ask([codex.message("Hi.")], "Hello.")
    codex.ask([codex.message("The word is SWORDFISH.")], "Noted.", first)
    question: Any = [codex.message("Or else?")] if is_list else "Or else?"
    codex.ask(question, "Else this.", first)
    told = text_fate(codex.tap.entries(), "codex", "SWORDFISH", api="openai-responses")
    kept = text_fate(codex.tap.entries(), "codex", "Or else?", api="openai-responses")

    assert (told.verdict, told.rule) == ("gone", "hidden")
    assert kept.verdict == "still in"


def test_a_title_that_a_developers_message_asks_for_is_a_side_request(codex: Codex) -> None:
    asked = [codex.message("You output a thread title.", "developer"), codex.message("Hi.")]
    codex.ask(asked, "A greeting")

    (answer,) = (e.event for e in codex.tap.entries() if isinstance(e.event, AssistantMessage))
    about: Any = answer.meta["tap"]
    assert about["kind"] == "title"

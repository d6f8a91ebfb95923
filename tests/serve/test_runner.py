"""A runner in another language: it claims effects, does them, and tells their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.apps.serve.service import Service
from stenolog.errors import AgentNotFoundError, ClaimLostError, InvalidEventError
from stenolog.events import Control
from tests.postgres.server import Server

Json = dict[str, Any]
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


class Caller:
    """A service whose methods are called with JSON."""

    def __init__(self, log: stenolog.Log, stopwatch: Any = None) -> None:
        leased = {} if stopwatch is None else {"is_leased": True, "stopwatch": stopwatch}
        self.service = Service(log, **leased)

    def __call__(self, method: str, **params: Any) -> Json:
        """Return the result of a call as JSON."""
        result = self.service.call(method, json.dumps({"conversation": "demo"} | params).encode())
        return result.model_dump(mode="json")

    def claim(self, **params: Any) -> list[Json]:
        """Return the effects that are claimed."""
        claimed: list[Json] = self("claim", **params)["claimed"]
        return claimed


@pytest.fixture(params=["sqlite file", "postgres 15"])
def address(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: Callable[[str], Server]
) -> Iterator[str]:
    if request.param == "sqlite file":
        yield str(tmp_path / "talks.db")
        return
    with postgres(request.param).schema() as address:
        yield address


@pytest.fixture
def log(address: str) -> Iterator[stenolog.Log]:
    with stenolog.open(address) as opened:
        opened["demo"].join("coder", model="gpt-5.2", tools=[{"type": "function", "function": TOOL}])
        opened["demo"].append(UserMessage("look around", to=["coder"]))
        yield opened


@pytest.fixture
def call(log: stenolog.Log) -> Iterator[Caller]:
    caller = Caller(log)
    yield caller
    caller.service.close()


def chat(text: str = "", calls: tuple[str, ...] = ()) -> Json:
    """Return an answer as OpenAI's Chat Completions give it."""
    made = [
        {"id": id, "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}} for id in calls
    ]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
    choice = {"index": 0, "finish_reason": "tool_calls" if made else "stop", "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {"id": "x", "object": "chat.completion", "model": "gpt-5.2", "choices": [choice], "usage": usage}


def chunk(text: str = "", end: str | None = None) -> Json:
    """Return a chunk of a stream."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": end}
    return {"id": "x", "object": "chat.completion.chunk", "model": "gpt-5.2", "choices": [choice]}


def test_a_claimed_model_call_has_its_request_and_its_answer_has_the_receipt(
    log: stenolog.Log, call: Caller
) -> None:
    [work] = call.claim()
    assert (work["effect"], work["agent"], work["call"]) == ("model", "coder", None)
    assert work["request"]["body"] == log["demo"].request("coder").body
    answer = call("settle", fence=work["fence"], outcome={"response": chat("done")}, id="a1")
    event = log["demo"].entry(answer["position"]).event
    assert isinstance(event, AssistantMessage)
    assert (event.text, event.cause) == ("done", work["cause"])
    assert event.receipt is not None
    assert event.receipt.sha256 == work["request"]["sha256"]
    assert call("claims", conversation="demo") == {"claims": []}
    assert call.claim() == []


def test_an_outcome_that_is_told_twice_with_an_id_is_written_once(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    told = {"fence": work["fence"], "outcome": {"response": chat("done")}, "id": "a1"}
    assert call("settle", **told) == call("settle", **told)
    assert len(log["demo"]) == 3
    with pytest.raises(ClaimLostError, match="was settled, released or taken over"):
        call("settle", fence=work["fence"], outcome={"response": chat("done")})


def test_calls_run_and_their_results_lead_to_the_next_request(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"response": chat(calls=("c1", "c2"))})
    tools = call.claim()
    assert [each["effect"] for each in tools] == ["tool 3/0", "tool 3/1"]
    assert tools[0]["call"]["arguments"] == '{"at": 1}'
    assert tools[0]["key"] != tools[1]["key"]
    assert call.claim() == [], "an effect is claimed once"
    for each in tools:
        output = {"text": f"saw {each['call']['id']}", "is_error": False, "duration_ms": 7}
        call("settle", fence=each["fence"], outcome={"output": output})
    results = [entry.event for entry in log["demo"]][-2:]
    assert [(r.call_id, r.text, r.duration_ms) for r in results if isinstance(r, ToolResult)] == [
        ("c1", "saw c1", 7),
        ("c2", "saw c2", 7),
    ]
    [after] = call.claim()
    assert [each["role"] for each in after["request"]["body"]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


def test_a_stream_that_breaks_off_is_an_error_with_its_text_and_is_tried_again(
    log: stenolog.Log, call: Caller
) -> None:
    [work] = call.claim()
    failure = {"message": "socket hang up", "code": "ECONNRESET", "category": "network"}
    outcome = {"chunks": [chunk("half an "), chunk("answer")], "failure": failure}
    call("settle", fence=work["fence"], outcome=outcome)
    error = log["demo"][-1].event
    assert isinstance(error, LlmError)
    assert (error.category, error.text, error.message) == ("network", "half an answer", "socket hang up")
    assert error.retry_at is not None
    later = call("claim")
    assert later["claimed"] == []
    assert 0 < later["due"] <= 1


@pytest.mark.parametrize(
    ("failure", "category"),
    [
        ({"status": 429, "headers": {"Retry-After": "7"}}, "rate_limited"),
        ({"status": 401, "message": "bad key sk-abcdefghijklmnopqrstuvwxyz0123"}, "unauthorized"),
        ({"status": 400, "message": "context length exceeded"}, "context_length"),
        ({"status": 503}, "overloaded"),
        ({"category": "timeout", "message": "no token for 60 s"}, "timeout"),
    ],
)
def test_a_failure_is_sorted_by_its_status_and_words(
    log: stenolog.Log, call: Caller, failure: Json, category: str
) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"failure": failure})
    [error] = [entry.event for entry in log["demo"] if isinstance(entry.event, LlmError)]
    assert error.category == category
    assert "sk-abc" not in error.message


def test_a_stream_without_its_end_is_a_failure(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"chunks": [chunk("half")]})
    assert isinstance(log["demo"][-1].event, LlmError)
    assert log["demo"][-1].event.text == "half"


def test_a_whole_stream_is_an_answer(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call(
        "settle", fence=work["fence"], outcome={"chunks": [chunk("all "), chunk("of it"), chunk(end="stop")]}
    )
    assert isinstance(log["demo"][-1].event, AssistantMessage)
    assert log["demo"][-1].event.text == "all of it"


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({}, "expected one of response, chunks, failure, output, question, events, found none"),
        ({"response": chat("x"), "output": {"text": "x"}}, "found output, response"),
        ({"output": {"text": "x"}}, "expected response, chunks or failure, found output"),
        ({"failure": {"category": "tired"}}, "expected one of timeout, network"),
    ],
)
def test_an_outcome_that_is_none_is_refused_and_the_claim_stays(
    log: stenolog.Log, call: Caller, outcome: Json, words: str
) -> None:
    [work] = call.claim()
    with pytest.raises(InvalidEventError, match=words):
        call("settle", fence=work["fence"], outcome=outcome)
    assert len(log["demo"]) == 2
    call("settle", fence=work["fence"], outcome={"response": chat("done")})
    assert len(log["demo"]) == 3


def test_of_a_runner_that_dies_the_drafted_text_is_in_the_log(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call("draft", fence=work["fence"], text="half an ")
    call("draft", fence=work["fence"], text="answer")
    call.service.close()
    [again] = Caller(log).claim()
    error = log["demo"][-1].event
    assert isinstance(error, LlmError)
    assert (error.category, error.text) == ("process_exited", "half an answer")
    assert again["attempt"] == 2
    with pytest.raises(ClaimLostError):
        call("settle", fence=work["fence"], outcome={"response": chat("too late")})


def test_a_call_that_a_dead_runner_had_begun_does_not_run_again(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"response": chat(calls=("c1",))})
    [tool] = call.claim()
    call.service.close()
    [after] = Caller(log).claim()
    assert after["effect"] == "model"
    result = log["demo"][-1].event
    assert isinstance(result, ToolResult)
    assert "The outcome of this call is unknown" in result.text
    assert tool["call"]["id"] == result.call_id


def test_a_call_of_a_repeatable_tool_runs_again_under_the_same_key(log: stenolog.Log, call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"response": chat(calls=("c1",))})
    [tool] = call.claim(repeatable=["look"])
    call.service.close()
    [again] = Caller(log).claim(repeatable=["look"])
    assert (again["key"], again["call"]) == (tool["key"], tool["call"])
    assert again["fence"] > tool["fence"]


def test_a_released_effect_may_be_claimed_by_anybody(call: Caller) -> None:
    [work] = call.claim(owner="one")
    assert call.claim(owner="two") == []
    assert call("claim", owner="two")["held"] == 1
    call("release", fence=work["fence"], owner="one")
    assert [each["cause"] for each in call.claim(owner="two")] == [work["cause"]]


def test_a_lease_that_is_not_renewed_ends_its_owners_claims(log: stenolog.Log) -> None:
    now = [0.0]
    call = Caller(log, lambda: now[0])
    [work] = call.claim(owner="one", lease=10)
    now[0] = 9.0
    call.service.call("renew", b'{"owner": "one", "lease": 10}')
    now[0] = 18.0
    assert call.claim(owner="two") == []
    now[0] = 20.0
    [taken] = call.claim(owner="two")
    assert taken["attempt"] == 2
    with pytest.raises(ClaimLostError):
        call("settle", fence=work["fence"], outcome={"response": chat("late")}, owner="one")
    call.service.close()


def test_a_claim_whose_answer_was_lost_is_taken_anew(log: stenolog.Log, call: Caller) -> None:
    [lost] = call.claim(owner="one")
    assert call.claim(owner="one") == []
    [work] = call.claim(owner="one", at_work=[])
    assert (work["cause"], work["attempt"]) == (lost["cause"], 1)
    assert call.claim(owner="one", at_work=[work["fence"]]) == []
    with pytest.raises(ClaimLostError):
        call("settle", fence=lost["fence"], outcome={"response": chat("done")})


def test_over_http_a_runner_has_a_name(log: stenolog.Log) -> None:
    with pytest.raises(stenolog.StenologError, match="/owner: expected a name of the runner"):
        Caller(log, lambda: 0.0).claim()


def test_an_answer_that_comes_after_a_stop_does_not_set_its_calls_to_work(
    log: stenolog.Log, call: Caller
) -> None:
    [work] = call.claim()
    call("submit", kind="user_message", event={"control": {"action": "cancel"}})
    call("settle", fence=work["fence"], outcome={"response": chat(calls=("c1",))})
    error = log["demo"][-1].event
    assert isinstance(error, LlmError)
    assert error.category == "cancelled"
    assert call.claim() == []


def test_work_is_waited_for(call: Caller) -> None:
    [work] = call.claim()
    failure = {"category": "network", "message": "down"}
    call("settle", fence=work["fence"], outcome={"failure": failure})
    [again] = call.claim(wait=30)
    assert again["attempt"] == 2


def test_an_agent_that_is_nobody_is_refused_with_the_members(call: Caller) -> None:
    with pytest.raises(AgentNotFoundError, match=r"'demo': no agent 'codr' \(known: coder"):
        call.claim(agents=["codr"])


def test_a_limit_ends_the_work_as_in_a_team(log: stenolog.Log, call: Caller) -> None:
    for number in range(2):
        [work] = call.claim(limits={"max_steps": 2})
        call("settle", fence=work["fence"], outcome={"response": chat(calls=(f"c{number}",))})
        [tool] = call.claim(limits={"max_steps": 2})
        call("settle", fence=tool["fence"], outcome={"output": {"text": f"{number}"}})
    assert call.claim(limits={"max_steps": 2}) == []
    error = log["demo"][-1].event
    assert isinstance(error, LlmError)
    assert error.category == "budget"


def test_a_loop_of_ones_own_appends_its_answers_without_claims(log: stenolog.Log, call: Caller) -> None:
    request = call("request", agent="coder")
    told = {
        "agent": "coder",
        "receipt": request["receipt"],
        "outcome": {"response": chat(calls=("c1",))},
        "id": "a1",
    }
    assert call("answer", **told) == call("answer", **told)
    state = call("state")
    assert state["decisions"]["coder"]["do"] == "run_tools"
    [effect] = state["effects"]
    ran = effect["call"]
    where = {"entry": ran["entry"], "index": ran["index"]}
    result = {"call_id": ran["id"], "call": where, "name": ran["name"], "text": "saw it"}
    call("append", events=[{"kind": "tool_result", "event": result, "id": "r1"}])
    assert call("request", agent="coder")["sendable"]
    failure = {"status": 503, "message": "busy"}
    call("answer", agent="coder", outcome={"failure": failure}, retry=True)
    assert log["demo"].state().lane("coder").retry_at is not None


def test_of_two_answers_at_once_under_one_id_the_first_stands_for_both(
    log: stenolog.Log, call: Caller, address: str
) -> None:
    # A program was started again while the service of the one before still had its answer to write.
    with stenolog.open(address) as other, ThreadPoolExecutor(2) as threads:
        callers = call, Caller(other)
        for number in range(20):
            log["demo"].append(UserMessage("again", to=["coder"]))
            both = [
                threads.submit(
                    each, "answer", agent="coder", outcome={"response": chat(text)}, id=f"a{number}"
                )
                for each, text in zip(callers, ("one", "two"), strict=True)
            ]
            assert both[0].result() == both[1].result()
        callers[1].service.close()
    assert len(log["demo"]) == 2 + 2 * 20


def test_a_state_tells_in_how_many_seconds_a_retry_is_due(log: stenolog.Log, call: Caller) -> None:
    assert call("state")["effects"][0]["due"] == 0
    failure = {"status": 429, "message": "busy", "headers": {"Retry-After": "30"}}
    call("answer", agent="coder", outcome={"failure": failure}, retry=True)
    [effect] = call("state")["effects"]
    assert 25 < effect["due"] <= 40


def test_a_command_is_recorded_once_under_its_id_and_not_at_all_where_nothing_is_left_to_do(
    log: stenolog.Log, call: Caller
) -> None:
    cancel = {
        "kind": "user_message",
        "event": {"control": {"action": "cancel", "agent": "coder"}},
        "id": "c1",
    }
    first = call("submit", **cancel)
    assert [each["id"] for each in first["entries"]] == ["c1"]
    assert call("submit", **cancel) == first
    assert call("submit", **cancel | {"id": "c2"}) == {"position": 3, "entries": []}
    assert len(log["demo"]) == 3


def test_a_tool_asks_and_has_its_answer_when_it_runs_again(log: stenolog.Log, call: Caller) -> None:
    [asked] = call.claim()
    call("settle", fence=asked["fence"], outcome={"response": chat(calls=("c1",))})
    [run] = call.claim()
    question = {"text": "Which?", "choices": ["a", "b"]}
    call("settle", fence=run["fence"], outcome={"question": question})
    answer = {"action": "answer", "call": {"entry": run["call"]["entry"], "index": 0}, "answer": '"c"'}
    with pytest.raises(InvalidEventError, match="answer: expected one of 'a', 'b', found 'c'"):
        call("submit", kind="user_message", event={"control": answer})
    call("submit", kind="user_message", event={"control": answer | {"answer": '"b"'}})
    [again] = call.claim()
    assert again["call"]["answers"] == [{"question": "Which?", "answer": '"b"'}]
    log["demo"].submit(UserMessage(control=Control(action="cancel")))
    [late] = call("settle", fence=again["fence"], outcome={"question": question})["entries"]
    assert log["demo"].entry(late["position"]).event.text == "Which?"  # type: ignore[union-attr]
    assert log["demo"].state().anomalies == 0

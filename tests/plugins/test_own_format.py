"""A plugin registers a format, and all that is done with an API works with it: no other list names it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, Conversation, Log, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.analysis import diff
from stenolog.apps.tap.exchanges.wire import api_of
from stenolog.apps.tap.upstreams import upstreams
from stenolog.importers import events_from
from stenolog.models import answer_from
from stenolog.requests import DEFAULT_API, FORMATS, Block, CacheRules, proofs, register_api, validate
from tests.plugins.courier import COURIER
from tests.recording.given import Tap

KIT = [{"name": "scale", "description": "Weigh", "parameters": {"type": "object", "properties": {}}}]
ASKS = [{"ref": "r-1", "tool": "scale", "with": '{"grams":5}'}]
ASKED = {"by": "user", "says": "How heavy?"}
CALLING = {"by": "assistant", "says": "I weigh it.", "asks": ASKS}
WEIGHED = {"by": "tool", "says": "5 g", "ref": "r-1"}
PARTS = (TextPart(text="I weigh it."), ToolCall(id="r-1", name="scale", arguments='{"grams":5}'))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Register the format for one test."""
    with FORMATS.restored():
        register_api(COURIER)
        yield


def body(*turns: dict[str, Any]) -> dict[str, Any]:
    return {"model": "courier-9", "rules": "Be brief.", "kit": KIT, "turns": list(turns)}


def answer(turn: dict[str, Any]) -> dict[str, Any]:
    return {"turn": turn, "spent": [40, 7]}


def recorded() -> Log:
    """Return a log into which a tap recorded two exchanges."""
    tap = Tap(headers={"user-agent": "Couriers/1", "content-type": "application/json"})
    plain = {"path": "/v9/turns", "upstream": "courier"}
    whole = {"answer_headers": {"content-type": "application/json"}}
    for sent, said in (
        (body(ASKED), CALLING),
        (body(ASKED, CALLING, WEIGHED), {"by": "assistant", "says": "5 grams."}),
    ):
        exchange = tap.exchange(sent, **plain)
        tap.recording.request(exchange)
        tap.answer(exchange, json.dumps(answer(said)).encode(), **whole)
    return tap.log


def test_of_apis_with_one_path_the_upstreams_provider_decides() -> None:
    usual = FORMATS[DEFAULT_API].endpoint
    place = COURIER.endpoint
    assert usual is not None
    assert place is not None
    register_api(COURIER._replace(name="express", endpoint=usual._replace(provider=place.provider)))
    path = f"/v1{usual.path}"

    assert api_of("POST", path, "courier") == ("express", "")
    assert api_of("POST", path, usual.provider.names[0]) == api_of("POST", path) == (DEFAULT_API, "")


def test_a_provider_that_is_registered_late_has_an_upstream() -> None:
    assert upstreams([], {})["courier"].origin == "https://courier.example"


def talk(log: Log) -> Conversation:
    (name,) = log.names()
    return log[name]


def test_a_tap_records_its_requests_and_answers_and_each_request_is_proved() -> None:
    log = recorded()
    events = [entry.event for entry in talk(log).entries()]

    assert [e.text for e in events if isinstance(e, UserMessage)] == ["How heavy?"]
    answers = [e for e in events if isinstance(e, AssistantMessage)]
    assert answers[0].parts == PARTS
    assert [e.text for e in answers] == ["I weigh it.", "5 grams."]
    assert [(e.usage.input, e.usage.output) for e in answers if e.usage] == [(40, 7)] * 2
    assert [(e.call_id, e.text) for e in events if isinstance(e, ToolResult)] == [("r-1", "5 g")]
    proved = proofs(talk(log).entries(), blobs=log.blobs)
    assert [(proof.outcome, str(proof.grade)) for proof in proved] == [("same", "derived")] * 2


def test_what_its_sdk_answered_is_an_event() -> None:
    event = answer_from(answer(CALLING), agent="baker")

    assert (event.parts, event.finish_reason) == (PARTS, "done")


def test_its_messages_are_read_as_events_and_written_as_they_were() -> None:
    events = events_from([ASKED, CALLING, WEIGHED], agent="baker")
    with stenolog.open(":memory:") as log:
        log["talk"].extend(events)
        request = log["talk"].request("baker", api="courier")

    assert request.body["turns"] == [ASKED, CALLING, WEIGHED]
    assert validate("courier", request.body) == []


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("curl", ["${COURIER_URL:-https://courier.example}", "/v9/turns", "x-key: ${COURIER_KEY"]),
        ("python", ["from courier import Courier", "client.turns.send(**BODY", "COURIER_KEY"]),
        ("pytest", ["courier", "5 g"]),
    ],
)
def test_its_request_is_exported_as_a_program(form: str, expected: list[str]) -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].extend(events_from([ASKED, CALLING, WEIGHED], agent="baker"))
        written = log["talk"].export(form, agent="baker", api="courier")

    assert [words for words in expected if words not in written] == []


def test_every_part_of_its_request_is_explained() -> None:
    with stenolog.open(":memory:") as log:
        log["talk"].join("baker", model="courier-9", persona="Be brief.")
        log["talk"].extend(events_from([ASKED, CALLING, WEIGHED], agent="baker"))
        request = log["talk"].request("baker", api="courier")

    assert {part.message for part in request.parts} >= {0, 1, 2}
    assert [position for part in request.parts for position in part.positions]


def _turns(body: Mapping[str, Any], key: str) -> Iterator[Block]:
    """Yield the turns alone, as a provider reads them that keeps its rules elsewhere."""
    for number, turn in enumerate(body[key]):
        yield Block("messages", f"/{key}/{number}", turn, json.dumps(turn), number)


@pytest.mark.parametrize(("cache", "reads_anew"), [(None, True), (lambda: CacheRules(_turns), False)])
def test_prompts_are_compared_in_the_order_that_its_rules_of_a_cache_say(
    cache: Callable[[], CacheRules] | None, reads_anew: bool
) -> None:
    FORMATS.remove("courier")
    register_api(COURIER._replace(cache=cache))
    with stenolog.open(":memory:") as log:
        log["talk"].join("baker", model="courier-9", persona="Be brief.")
        log["talk"].extend(events_from([ASKED, CALLING, WEIGHED], agent="baker"))
        before = log["talk"].request("baker", api="courier")
        log["talk"].join("baker", model="courier-9", persona="Be verbose.")
        after = log["talk"].request("baker", api="courier")

    assert (diff(before, after).again > 0) is reads_anew


def test_its_request_is_drawn_in_the_inspector() -> None:
    log = recorded()
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
        page = web.get(f"/request/{talk(log).name}?agent=assistant")

    assert page.status_code == 200
    assert [
        words for words in ("How heavy?", "I weigh it.", "scale", "courier") if words not in page.text
    ] == []

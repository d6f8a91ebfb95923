"""Every view of a recorded program's request shows what the program sent, to the byte."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import AssistantMessage, Entry
from stenolog.adapters.conversation.queries.exporters import export
from stenolog.adapters.conversation.queries.requests.sent_forms import sent_form
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.adapters.conversation.verifying.trace import trace_value
from stenolog.adapters.engine.replay import Replay
from stenolog.apps.inspect.one_file.sent import sent_requests
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.apps.views.checks import log_check
from stenolog.context import LastN
from stenolog.domain.errors import ReplayMismatchError
from stenolog.domain.values import Receipt
from stenolog.models import ModelRequest
from stenolog.projections.analysis.blame import blame
from stenolog.projections.analysis.byte_ranges import byte_ranges, sent_request
from stenolog.projections.analysis.explain import explain
from stenolog.projections.analysis.knowledge import seen
from stenolog.projections.analysis.retry import Change, Here, built, cases, tried
from stenolog.projections.analysis.text_fate import text_fate
from stenolog.projections.formats import format_of
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.requests import LaneId
from stenolog.projections.requests.proofs import proofs
from tests.cli.conftest import Ran, cli  # noqa: F401
from tests.recording.programs import BODIES, CLIENTS, Tap, answered, conversation, said, turns, written

Cli = Callable[..., Ran]
FORMATS = (*CLIENTS,)
QUESTIONS = ("Is the oven on, and for how long has it been on by now?", "ok", "Tell Ann <that> & me, please.")
STYLES: dict[str, Callable[[Any], bytes]] = {
    "compact": written,
    "spaced": lambda body: json.dumps(body).encode(),
    "html": lambda body: (
        written(body).replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    ),
    "raw": lambda body: json.dumps(body, indent=1, ensure_ascii=False).encode(),
}


@pytest.fixture(params=FORMATS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tap(tmp_path: Path) -> Iterator[Tap]:
    with stenolog.open(tmp_path / "talks.db") as log:
        yield Tap(log)


def receipt_of(entry: Entry) -> Receipt:
    event = entry.event
    assert isinstance(event, AssistantMessage)
    assert event.receipt is not None
    return event.receipt


def whose(entry: Entry) -> tuple[str, str]:
    """Return the conversation and the agent of an answer."""
    assert isinstance(entry.event, AssistantMessage)
    return entry.conversation, entry.event.agent


def test_the_request_of_a_receipt_is_the_one_that_was_sent(tap: Tap, api: str) -> None:
    for answer in conversation(tap, api, QUESTIONS):
        name, agent = whose(answer)
        receipt = receipt_of(answer)
        asked = AskedRequest(tap.log[name], agent, receipt.view, None, None, ())

        assert asked.request().sha256 == receipt.sha256
        assert asked._replace(as_built=True).request().patch is None
        assert asked.request().sendable


def test_a_request_at_another_place_or_on_another_api_is_the_one_that_is_built(tap: Tap) -> None:
    *_, answer = conversation(tap, "anthropic", QUESTIONS)
    name, agent = whose(answer)
    talk, view = tap.log[name], receipt_of(answer).view

    assert sent_form(talk, LaneId(agent, ""), view, "openai-chat") is None
    assert sent_form(talk, LaneId(agent, ""), talk.position) is None


def test_every_request_is_proved_with_its_grade(tap: Tap, api: str) -> None:
    conversation(tap, api, QUESTIONS)
    data = log_check(tap.log, requests=True).data["requests"]

    assert (data["same"], data["differs"], data["not-provable"]) == (3, [], [])
    assert sum(data["grades"].values()) == 3
    assert data["grades"]["bytes"] == 0


def test_a_body_that_is_written_as_no_style_is_derived_and_its_bytes_are_kept(tap: Tap) -> None:
    body = BODIES["anthropic"](turns("anthropic", ["hi"]))
    tap.ask("anthropic", STYLES["raw"](body), answered("anthropic", "ho"))
    [name] = tap.log.names()
    [proof] = proofs(tap.log[name].entries(), blobs=tap.log.blobs)

    assert (proof.outcome, proof.grade) == ("same", "derived")
    assert receipt_of(tap.log[name].entry(proof.position)).transport["style"] == "raw"


@pytest.mark.parametrize("style", STYLES)
def test_byte_ranges_tile_the_bytes_in_every_style(tap: Tap, api: str, style: str) -> None:
    body = BODIES[api](turns(api, ["a <b> & «c», and so on", "Yes.", QUESTIONS[0]]))
    content = STYLES[style](body)
    answer = tap.ask(api, content, answered(api, "done"))
    log = list(tap.log[answer.conversation].entries())
    request, transport = sent_request(log, answer.position, blobs=tap.log.blobs)
    ranges = byte_ranges(request, transport, tap.log.blobs)

    assert transport.style == style
    assert transport.render(request.body, tap.log.blobs) == content
    assert [one.first for one in ranges] == [0, *(one.end for one in ranges[:-1])]
    assert ranges[-1].end == len(content)
    asked = next(one for one in ranges if b"Is the oven on" in content[one.first : one.end])
    assert asked.parts, "its entry is known"


def test_an_entry_is_explained_in_every_request_that_it_was_sent_in(tap: Tap, api: str) -> None:
    answers = conversation(tap, api, QUESTIONS)
    name, _ = whose(answers[0])
    log = list(tap.log[name].entries())
    [short] = [entry.position for entry in log if getattr(entry.event, "text", "") == "ok"]
    [lane] = explain(log, short, blobs=tap.log.blobs).lanes
    sent = [
        position for stretch in lane.stretches if stretch.form.fate != "dropped" for position in stretch.sent
    ]

    assert sent == [answer.position for answer in answers[1:]]


def test_what_a_client_leaves_out_is_explained_so(tap: Tap) -> None:
    first = turns("openai-chat", [QUESTIONS[0], "Answer 0", "And now?"])
    tap.ask("openai-chat", BODIES["openai-chat"](first[:1]), answered("openai-chat", "Answer 0"))
    answer = tap.ask("openai-chat", BODIES["openai-chat"](first[2:]), answered("openai-chat", "So."))
    log = list(tap.log[answer.conversation].entries())
    [asked] = [entry.position for entry in log if getattr(entry.event, "text", "") == QUESTIONS[0]]
    [lane, *_] = explain(log, asked, blobs=tap.log.blobs).lanes

    assert answer.position not in [
        position for stretch in lane.stretches if stretch.form.fate != "dropped" for position in stretch.sent
    ]


def test_what_an_agent_has_seen_is_proved_by_receipts(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    name, agent = whose(answer)
    found = seen(tap.log[name].entries(), LaneId(agent, ""), api=api, blobs=tap.log.blobs)

    assert {one.proof for one in found} == {"own", "receipt"}


def test_calls_of_a_recorded_log_are_built_again_as_they_were_sent(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    entries = list(tap.log[answer.conversation].entries())

    assert [one.what for one in tried(entries, cases(entries))] == ["same"] * 3


def test_a_change_leaves_the_form_of_a_program_but_for_what_it_concerns(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    log = list(tap.log[answer.conversation].entries())
    means, case = Here(blobs=tap.log.blobs), cases(log)[-1]
    key = format_of(api).messages
    sent = built(case, log, means=means).body
    asked = next(entry.position for entry in log if getattr(entry.event, "text", "") == QUESTIONS[0])
    poet, short, none, edited = (
        built(case, log, change, means).body
        for change in (
            Change(card={"persona": "You are a poet."}),
            Change(policy=LastN(1)),
            Change(policy=LastN(99)),
            Change(edits={asked: "Is it hot?"}),
        )
    )

    assert compact(none) == compact(sent)
    assert written(edited).replace(b"Is it hot?", QUESTIONS[0].encode()) == written(sent)
    changed = {name for name in {*poet, *sent} if poet.get(name) != sent.get(name)}
    assert len(changed) == 1
    assert "You are a poet." in json.dumps(poet)
    assert short[key][-1] == sent[key][-1]
    assert len(short[key]) < len(sent[key])
    assert {name for name in sent if name != key and short.get(name) != sent[name]} == set()


def test_a_replay_answers_what_stenolog_would_ask(tap: Tap, api: str) -> None:
    answers = conversation(tap, api, QUESTIONS)
    name, agent = whose(answers[0])
    talk = tap.log[name]
    replay = Replay(talk)
    found = []
    for answer in answers:
        body = talk.request(agent, receipt_of(answer).view, api).body
        found.append(replay.answer(ModelRequest(body, "key", agent, name)).position)
    odd = {**body, "model": "another"}

    assert found == [answer.position for answer in answers]
    with pytest.raises(ReplayMismatchError):
        Replay(talk).answer(ModelRequest(odd, "key", agent, name))


def test_a_text_is_traced_to_the_requests_it_was_sent_in(tap: Tap, api: str) -> None:
    conversation(tap, api, QUESTIONS)
    found = trace_value(tap.log, "for how long")

    assert sum(one.what == "request" for one in found.reached) == 3
    assert not any(one.reason for one in found.reached)


def test_a_text_is_still_in_the_last_request(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    name, agent = whose(answer)

    assert text_fate(tap.log[name].entries(), agent, "for how long", api=api).verdict == "still in"


def test_the_cause_of_an_answer_is_found(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    found = blame(tap.log[answer.conversation].entries(), answer.position)

    assert "Tell Ann" in json.dumps(found._asdict(), default=str)


def test_a_moment_as_json_and_curl_is_the_very_bytes(tap: Tap, api: str, tmp_path: Path) -> None:
    for style in ("compact", "html", "raw"):
        body = BODIES[api](turns(api, [f"{style} <b> it's"]))
        answer = tap.ask(api, STYLES[style](body), answered(api, "done"), session=style)
        name, agent = whose(answer)
        receipt = receipt_of(answer)
        given = export(tap.log[name], "json", agent, receipt.view).encode()
        script = export(tap.log[name], "curl", agent, receipt.view)
        printed = script[: script.rindex("' |\n") + 1]
        shown = subprocess.run(["sh", "-c", printed], check=True, capture_output=True).stdout

        assert sha256(given).hexdigest() == receipt.sent
        assert sha256(shown).hexdigest() == receipt.sent
        assert receipt.sent in script
        assert "/v1/v1/" not in script
        assert "/v1beta//v1beta" not in script


def test_a_moment_as_pytest_passes_and_as_python_compiles(tap: Tap, api: str) -> None:
    for style in ("compact", "raw"):
        body = BODIES[api](turns(api, [*QUESTIONS[:1], "Yes.", f"{style}?"]))
        answer = tap.ask(api, STYLES[style](body), answered(api, "done"), session=style)
        name, agent = whose(answer)
        names: dict[str, Any] = {}
        view = receipt_of(answer).view
        exec(compile(export(tap.log[name], "pytest", agent, view), "moment.py", "exec"), names)
        [test] = [value for key, value in names.items() if key.startswith("test_the_request")]

        test()
        compile(export(tap.log[name], "python", agent, view), "call.py", "exec")


def test_a_moment_of_a_later_request_rests_on_no_other_receipt(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    name, agent = whose(answer)
    names: dict[str, Any] = {}
    text = export(tap.log[name], "pytest", agent, receipt_of(answer).view)
    exec(compile(text, "moment.py", "exec"), names)
    [test] = [value for key, value in names.items() if key.startswith("test_the_request")]

    test()
    assert "base" not in names["MOMENT"]["patch"]


def test_one_file_has_the_requests_that_were_sent(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    entries = list(tap.log[answer.conversation].entries())
    found = [one for one in sent_requests(entries, tap.log.blobs, COUNTERS) if one.call.sha256]

    assert [one.request and one.request.sha256 for one in found] == [one.call.sha256 for one in found]


def test_the_command_shows_what_was_sent_and_says_so(tap: Tap, api: str, cli: Cli) -> None:  # noqa: F811
    *_, answer = conversation(tap, api, QUESTIONS)
    name, agent = whose(answer)
    receipt = receipt_of(answer)
    place = ("request", name, "--agent", agent, "--at", str(receipt.view))
    data, built = (cli(*place, *more, "--json").envelope["data"] for more in ((), ("--built",)))

    assert f"as {agent} sent it" in cli(*place).out
    assert (data["as_sent"], data["sha256"]) == (True, receipt.sha256)
    assert built["as_sent"] is False
    assert "sent it" not in cli(*place, "--built").out
    assert cli(*place, "--diff", "call").status == 0
    assert cli("explain", "entry", name, str(answer.position), "--bytes").status == 0


def test_a_mark_of_the_cache_that_moved_ends_no_common_beginning(tap: Tap, cli: Cli) -> None:  # noqa: F811
    for number in (1, 3):
        messages = turns("anthropic", [*QUESTIONS, "x"])[:number]
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        answer = tap.ask("anthropic", BODIES["anthropic"](messages), answered("anthropic", "ok"))
    name, agent = whose(answer)
    place = ("request", name, "--agent", agent, "--at", str(receipt_of(answer).view))
    found = cli(*place, "--diff", "call", "--json").envelope["data"]

    assert (found["first"], found["again"]) == (None, 0)


def test_the_inspector_shows_what_was_sent(tap: Tap, api: str) -> None:
    *_, answer = conversation(tap, api, QUESTIONS)
    name, agent = whose(answer)
    receipt = receipt_of(answer)
    place = f"{name}?at={receipt.view}&agent={agent}"
    with TestClient(stenolog.inspector(tap.log, token=""), base_url="http://127.0.0.1") as web:
        page = web.get(f"/request/{place}")
        raw = web.get(f"/request/{place}&form=raw")
        copied = web.get(f"/copy/{place}&as=json")
        others = [web.get(f"/{screen}/{place}") for screen in ("diff", "proof", "c")]
        curl = web.get(f"/copy/{place}&as=curl")

    assert "as it was sent" in page.text
    assert "cache:" in page.text
    assert "Not sent" not in page.text
    assert raw.status_code == 200
    assert sha256(copied.content).hexdigest() == receipt.sent
    assert receipt.sent in curl.text
    assert {one.status_code for one in others} == {200}


def test_bytes_that_nothing_describes_are_shown_too(tap: Tap) -> None:
    body = BODIES["openai-chat"]([said("openai-chat", "hi <b>")])
    answer = tap.ask("openai-chat", STYLES["raw"](body), answered("openai-chat", "ho"))
    name, agent = whose(answer)
    receipt = receipt_of(answer)
    place = f"{name}?at={receipt.view}&agent={agent}"
    with TestClient(stenolog.inspector(tap.log, token=""), base_url="http://127.0.0.1") as web:
        raw = web.get(f"/request/{place}&form=raw")
        copied = web.get(f"/copy/{place}&as=json")

    assert raw.status_code == 200
    assert sha256(copied.content).hexdigest() == receipt.sent


def test_a_request_that_nobody_sent_is_built_as_before() -> None:
    with stenolog.open(":memory:") as empty:
        talk = empty["t"]
        talk.append(stenolog.UserMessage(text="hi", to=("a",)))
        asked = AskedRequest(talk, "a", 2, "anthropic", None, ())

        assert asked.request().patch is None

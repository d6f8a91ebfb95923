"""A conversation as one HTML file, without a browser: what is in it, how large it is, what is not in it."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    LlmError,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
    inspector,
)
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.apps.inspect.one_file.page import write_page
from stenolog.apps.inspect.one_file.redaction import Redaction
from stenolog.context import Policy, TruncateToolOutput
from stenolog.domain.errors import CallerError
from stenolog.events import Receipt, Usage
from stenolog.parts import ImagePart, TextPart
from stenolog.projections.analysis.explain import why
from tests.one_file.reading import data_of, numbers, positions, said, text
from tests.one_file.stories import long_story


def page_of(conversation: stenolog.Conversation, redaction: Redaction | None = None) -> str:
    stream = StringIO()
    write_page(conversation, stream, redaction)
    return stream.getvalue()


@pytest.fixture
def demo() -> Iterator[stenolog.Conversation]:
    with stenolog.open(":memory:", entropy=bytes, ids=lambda: "demo~1-22") as log:
        yield record_all(log)


def test_the_page_holds_the_request_of_every_call_and_each_agents_next_one(
    demo: stenolog.Conversation,
) -> None:
    data = data_of(page_of(demo))
    answers = {
        (entry.position, entry.event.agent)
        for entry in demo
        if isinstance(entry.event, AssistantMessage | LlmError) and entry.event.receipt is not None
    }
    held = {(request[3], data["lanes"][request[0]]) for request in data["requests"]}

    assert held == answers | {(0, agent) for agent in ("coder", "planner", "reviewer")}
    # Those with a receipt are the same to the byte.
    assert {request[6] for request in data["requests"] if request[3]} == {1}


def test_each_part_of_each_request_has_its_entries_its_rule_and_its_words(
    demo: stenolog.Conversation,
) -> None:
    data = data_of(page_of(demo))

    for number, request in enumerate(data["requests"]):
        lane, api, view = data["lanes"][request[0]], data["apis"][request[1]], request[2]
        built = demo.request(lane, at=view, api=api)
        rows, gone = numbers(data, number)
        table = data["rows"]
        reasons = why(built, demo.entries(at=view))
        assert len(rows) == len(reasons)
        for row, reason in zip(rows, reasons, strict=True):
            assert tuple(positions(data, row)) == reason.positions
            assert data["rules"][table["rule"][row]] == [reason.rule, reason.does]
            assert data["roles"][table["role"][row]] == reason.role
            assert ("kept", "reworded", "added")[table["what"][row]] == reason.disposition
            assert (table["in"][row], table["in"][row] + table["more"][row]) == (
                reason.tokens_in,
                reason.tokens_out,
            )
            if (
                text(data, row) != reason.text
            ):  # a message that parts share, where each says what its entry said
                assert text(data, row) == said(data, reason.positions[0])
        omissions = [(data["gone"]["first"][each], data["gone"]["last"][each]) for each in gone]
        assert omissions == [(each.first, each.last) for each in built.omissions]


def test_the_page_runs_its_own_script_alone_and_loads_nothing(demo: stenolog.Conversation) -> None:
    page = page_of(demo)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    [script] = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    hashes = [base64.b64encode(sha256(each.encode()).digest()).decode() for each in (script, style)]

    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{hashes[0]}'",
        f"style-src 'sha256-{hashes[1]}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.findall(r"https?://|\bfetch\(|insertAdjacentHTML|\beval\b|^import ", script + style, re.M)
    drawn = page.partition("<script")[0] + "".join(html for _, html in data_of(page)["entries"])
    assert not re.findall(r"<(?:img|link|iframe|object)\b", drawn)
    assert {address[:1] for address in re.findall(r'(?:href|action|src)="([^"]*)"', drawn)} == {"#"}


def test_the_same_log_gives_the_same_file(demo: stenolog.Conversation) -> None:
    assert page_of(demo) == page_of(demo)


def test_each_item_is_the_one_that_the_inspector_draws(demo: stenolog.Conversation) -> None:
    with TestClient(inspector(demo.log, ""), base_url="http://127.0.0.1") as web:
        pages = {}
        for start in range(1, len(demo) + 1):
            text = web.get("/piece/demo", params={"first": start, "count": 1}).text
            pages[int(re.findall(r'data-position="(\d+)"', text)[0])] = seen(text)
    drawn = {at: html for at, (_, html) in enumerate(data_of(page_of(demo))["entries"], 1) if html}

    assert {at: seen(html) for at, html in drawn.items()} == pages
    assert len(pages) > 20


def seen(html: str) -> str:
    """Return the words of some HTML, but for the links to other pages."""
    return " ".join(unescape(re.sub(r"· <a [^>]*>(what changed|who asked)</a>|<[^>]*>", " ", html)).split())


def test_a_reader_without_a_script_has_the_first_entries(demo: stenolog.Conversation) -> None:
    before = page_of(demo).partition('<script type="application/gzip"')[0]

    assert "Which test fails, and why?" in before
    assert "Thanks! What did we change in all?" in before


@pytest.mark.slow
def test_five_thousand_entries_with_their_requests_are_a_megabyte() -> None:
    with stenolog.open(":memory:") as log:
        log["long"].extend(list(long_story(5_000)))
        page = page_of(log["long"])
        count = len(log["long"])

    data = data_of(page)
    assert count >= 5_000
    assert len([request for request in data["requests"] if len(request) > 5]) > 2_000
    assert len(page.encode()) <= 1_000_000
    assert "The rest of" in page


def test_what_was_erased_is_nowhere_and_what_was_built_on_it_is_not_provable(
    demo: stenolog.Conversation,
) -> None:
    demo.erase(24, reason="a path")
    page = page_of(demo)
    data = data_of(page)

    assert "Traceback" not in page + str(data)
    assert {request[6] for request in data["requests"] if request[3] and request[2] < 24} == {1}
    assert 3 in {request[6] for request in data["requests"]}
    assert 2 not in {request[6] for request in data["requests"]}


def test_a_damaged_entry_is_shown_as_such_and_the_requests_say_why_they_are_missing(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        record_all(log)
    with closing(sqlite3.connect(tmp_path / "talks.db")) as connection, connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 24")
    with stenolog.open(tmp_path / "talks.db") as log:
        page = page_of(log["demo"])
    data = data_of(page)

    assert "its digest is not that of its bytes" in said(data, 24)
    assert "its digest is not that of its bytes" in page
    assert {len(request) for request in data["requests"] if request[2] < 24} == {14}
    assert {len(request) for request in data["requests"] if request[2] >= 24} == {5}


def test_pictures_are_named_and_not_held() -> None:
    picture = ImagePart(url=f"data:image/png;base64,{'QUJD' * 100_000}")
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("coder", model="gpt-5.2")
        talk.append(UserMessage(parts=[picture], to=["coder"]))
        sha = log.blobs.put(b"QUJDQUJD")
        talk.append(UserMessage(parts=[ImagePart(blob=sha)], to=["coder"]))
        page = page_of(talk)
    data = data_of(page)

    assert "QUJDQUJD" not in page + str(data)
    assert [said(data, at) for at in (2, 3)] == [
        "[image/png 400,022 characters]",
        f"[image/png sha256 {sha[:12]}…]",
    ]


def test_a_request_that_cannot_be_built_here_says_why() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("coder", model="gpt-5.2")
        talk.append(UserMessage("Go.", to=["coder"]))
        receipt = talk.request("coder").receipt
        odd = Receipt(view=receipt.view, sha256=receipt.sha256, api="telegraph@3")
        talk.append(AssistantMessage(agent="coder", text="Done.", receipt=odd))
        data = data_of(page_of(talk))

    assert [data["reasons"][request[4]] for request in data["requests"] if len(request) == 5] == [
        "API telegraph is not here"
    ]


SECRET = "hunter2-and-more"


@pytest.fixture
def secretive() -> Iterator[stenolog.Conversation]:
    """Yield a conversation that has a secret in every place."""
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("coder", model="gpt-5.2", persona=f"You know {SECRET}.")
        talk.join("judge", model="claude-opus-5")
        talk.append(ModeSwitch(title=f"About {SECRET}"), expected=len(talk))
        talk.append(UserMessage(f"The key is {SECRET}.", author=f"Ann {SECRET}", to=["coder"]))
        call = ToolCall(id="c1", name="login", arguments=f'{{"password": "{SECRET}", "pin": 7}}')
        talk.append(AssistantMessage(agent="coder", text=f"With {SECRET}.", tool_calls=[call]))
        talk.append(ToolResult(call_id="c1", name="login", text=f'{{"token": "{SECRET}"}}'))
        talk.append(LlmError(agent="coder", category="other", message=f"no {SECRET}", text=SECRET))
        talk.append(AssistantMessage(agent="coder", text="Done.", to=["judge"]))
        yield talk


@pytest.mark.parametrize(
    "redaction", [Redaction(["hunter2[a-z-]*"]), Redaction(keys=["Password"])], ids=["pattern", "key"]
)
def test_what_a_pattern_or_a_key_names_is_nowhere_in_the_file(
    secretive: stenolog.Conversation, redaction: Redaction
) -> None:
    page = page_of(secretive, redaction)

    assert SECRET in str(data_of(page_of(secretive)))
    assert "hunter2" not in page
    assert "hunter2" not in str(data_of(page))
    assert "[redacted]" in page
    places = {each.where for each in redaction.removals}
    assert {"the title", "entry 4", "entry 5", "entry 6", "entry 7"} <= places
    assert all("hunter2" not in each.sample for each in redaction.removals)


KEYS = ("sk-live-AAAABBBBCCCCDDDD1111", "sk-live-AAAAZZZZYYYYXXXX2222")


@pytest.mark.parametrize("by", ["pattern", "key"])
@pytest.mark.parametrize("before", [76, 82, 88, 94])
def test_no_piece_of_what_is_taken_out_is_in_the_file_where_a_text_is_cut_short_or_quoted(
    by: str, before: int
) -> None:
    redaction = Redaction(keys=["shop"]) if by == "key" else Redaction([r"sk-live-[A-Z0-9]{20}"])
    output, whole = Policy(compact=TruncateToolOutput(over=20, head=before // 4, tail=10)), "w " * 9_000
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        for key, read in zip(KEYS, (0, 50), strict=True):
            card = AgentCard(model="claude-opus-5", persona=f"{whole}{key} opens the shop.", policy=output)
            talk.append(ModeSwitch(cards={"coder": card}, joins=["coder"]), expected=len(talk))
            talk.append(UserMessage("x" * before + f" {key} is the key", to=["coder"]))
            call = ToolCall(id=key[-4:], name="look", arguments=json.dumps({"shop": key}))
            for parts in ([call], [TextPart(text="Seen.")]):
                used = Usage(input=20_000, output=3, cache_read=read)
                receipt = talk.request("coder", api="anthropic").receipt
                said = AssistantMessage(
                    agent="coder", model=card.model, parts=parts, receipt=receipt, usage=used
                )
                talk.append(said)
                if parts == [call]:
                    talk.append(ToolResult(call_id=call.id, text=f"{'y' * before} {key} {whole}"))
        page = page_of(talk, redaction)
    shown = unescape(page + str(data_of(page)))

    assert "cache missed" in shown
    assert [key[at : at + 8] for key in KEYS for at in range(8, 21) if key[at : at + 8] in shown] == []


def test_a_short_value_is_taken_out_under_its_key_alone(secretive: stenolog.Conversation) -> None:
    redaction = Redaction(keys=["pin"])
    data = data_of(page_of(secretive, redaction))

    assert '"pin":7' not in str(data).replace(" ", "")
    assert [each.where for each in redaction.removals] == ["entry 5"]


def test_keys_that_the_log_redacts_are_taken_out_of_what_was_stored_before(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        log["talk"].append(ToolResult(call_id="c1", text=f'{{"token": "{SECRET}"}}'))
    with stenolog.open(tmp_path / "talks.db", redact=["token"]) as log:
        page = log["talk"].export("html")

    assert SECRET not in page + str(data_of(page))


def test_with_a_redaction_no_digest_tells_what_was_there(secretive: stenolog.Conversation) -> None:
    data = data_of(page_of(secretive, Redaction(["hunter2"])))

    assert {request[5] for request in data["requests"] if len(request) > 5} == {""}


@pytest.mark.parametrize(("pattern", "why"), [("(", "expected a regular expression"), ("x*", "everything")])
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(CallerError, match=why):
        Redaction([pattern])

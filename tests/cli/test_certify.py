"""The command `certify`: who was never sent an entry or a text, in a conversation and its forks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from stenolog import AgentCard, AssistantMessage, ModeSwitch, UserMessage
from stenolog.adapters.conversation.log import open as open_log

Cli = Callable[..., Any]
SECRET = "The password is swordfish, mind you."


@pytest.fixture
def kept(cli: Cli) -> Cli:
    """Return the command line, in a folder whose talks.db holds a secret of ann, and an answer of bob."""
    with open_log("talks.db") as log:
        talk = log["talk"]
        cards: dict[str, AgentCard | None] = {"bob": AgentCard(model="gpt-5")}
        talk.append(ModeSwitch(joins=["ann", "bob"], scope="addressed", cards=cards))
        talk.append(UserMessage(text=SECRET, to=["ann"]))
        talk.append(UserMessage(text="Hello, bob.", to=["bob"]))
        talk.append(AssistantMessage(agent="bob", text="Hello.", receipt=talk.request("bob").receipt))
    return cli


def test_a_certificate_names_the_heads_and_the_requests_and_not_the_text(kept: Cli) -> None:
    ran = kept("certify", "talk", "--agent", "bob", "--never", "2", "--never", "swordfish", "-o", "c.json")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("✓ bob was never sent entry 2 and a text of 9 characters, nor an entry")
    assert "· talk: 1 request built again, 0 more could have been sent\n" in ran.out
    written = Path("c.json").read_text("utf-8")
    certificate = json.loads(written)
    assert "swordfish" not in written + ran.out
    (text,) = certificate["never"]["texts"]
    assert text["sha256"] == sha256(bytes.fromhex(text["salt"]) + b"swordfish").hexdigest()
    with open_log("talks.db") as log:
        entries = list(log["talk"].entries())
    (part,) = certificate["parts"]
    assert part["to"] == {"position": 4, "digest": entries[3].digest}
    assert certificate["never"]["entries"][0]["digest"] == entries[1].digest
    assert [(one["position"], one["view"]) for one in part["requests"]] == [(4, 3)]
    assert certificate["given"] is True


def test_if_one_request_shows_it_nothing_is_written_and_it_fails(kept: Cli) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text=f"She said: {SECRET}", to=["bob"]))

    ran = kept("certify", "talk", "--agent", "bob", "--never", "2", "-o", "c.json")

    assert ran.status == 1
    assert ran.out.startswith("✗ bob was sent entry 2, or could have been, from 0 to 5 of talk")
    assert "it has an entry that quotes it: 5" in ran.out
    assert not Path("c.json").exists()
    assert kept("certify", "talk", "--agent", "bob", "--never", "2", "--to", "4").status == 0


def test_a_head_may_be_a_digest(kept: Cli) -> None:
    with open_log("talks.db") as log:
        digest = log["talk"].entry(3).digest

    ran = kept("certify", "talk", "--agent", "bob", "--never", "2", "--to", digest, "--json")

    assert json.loads(ran.out)["data"]["parts"][0]["to"] == {"position": 3, "digest": digest}
    assert kept("certify", "talk", "--agent", "bob", "--never", "2", "--from", "f" * 64).status == 2


def test_what_was_sent_in_a_fork_counts(kept: Cli) -> None:
    with open_log("talks.db") as log:
        fork = log["talk"].fork(2, "other")
        fork.append(UserMessage(text=SECRET, to=["bob"]))

    ran = kept("certify", "talk", "--agent", "bob", "--never", "2", "--json")

    data = json.loads(ran.out)["data"]
    assert (ran.status, data["given"]) == (1, False)
    assert [(part["conversation"], bool(part["shown"])) for part in data["parts"]] == [
        ("talk", False),
        ("other", True),
    ]


def test_in_all_conversations_what_another_one_was_told_counts(kept: Cli) -> None:
    with open_log("talks.db") as log:
        log["elsewhere"].append(UserMessage(text=f"I read: {SECRET}", to=["bob"]))
        log["of others"].append(UserMessage(text=SECRET, to=["eve"]))

    assert kept("certify", "talk", "--agent", "bob", "--never", "2").status == 0
    ran = kept("certify", "talk", "--agent", "bob", "--never", "2", "--all", "--json")

    parts = json.loads(ran.out)["data"]["parts"]
    assert (ran.status, [part["conversation"] for part in parts]) == (1, ["talk", "elsewhere"])
    assert [one["how"] for one in parts[1]["shown"]] == ["quote"]
    assert kept("certify", "talk", "--agent", "bob", "--never", "2", "--all", "--to", "3").status == 2


def test_an_answer_without_a_receipt_is_a_limit_and_fails_if_strict(kept: Cli) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="Well?", to=["bob"]))
        log["talk"].append(AssistantMessage(agent="bob", text="Well."))

    ran = kept("certify", "talk", "--agent", "bob", "--never", "2")
    assert ran.status == 0
    assert "Without a receipt, so not proved: the requests of the answers 6 of talk." in ran.out
    assert kept("certify", "talk", "--agent", "bob", "--never", "2", "--strict").status == 1


def test_a_request_that_is_another_today_is_not_certified(kept: Cli) -> None:
    with open_log("talks.db") as log:
        receipt = replace(log["talk"].request("bob", at=3).receipt, sha256="0" * 64)
        log["talk"].append(AssistantMessage(agent="bob", text="?", receipt=receipt))

    ran = kept("certify", "talk", "--agent", "bob", "--never", "2")

    assert ran.status == 1
    assert ran.out.startswith("✗ nobody can say if bob was sent entry 2")
    assert "nobody can say: " in ran.out

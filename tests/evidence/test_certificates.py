"""A certificate in a pack: a stranger checks it without the entry, and a changed one is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from clients import verify
from stenolog import AgentCard, AssistantMessage, Conversation, ModeSwitch, UserMessage

from .given import pack_of, with_receipt

SCRIPT = Path(verify.__path__[0], "verify_certificate.py")
SECRET = "The password is swordfish, mind you."
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with stenolog.open("talks.db") as log:
        talk = log["talk"]
        cards: dict[str, AgentCard | None] = {"bob": AgentCard(model="gpt-5")}
        talk.append(ModeSwitch(joins=["ann", "bob"], scope="addressed", cards=cards))
        talk.append(UserMessage(text=SECRET, to=["ann"]))
        for question in ("Hello, bob.", "And now?"):
            talk.append(UserMessage(text=question, to=["bob"]))
            talk.append(with_receipt(talk, AssistantMessage(agent="bob", text="Well.")))
        yield talk


def certificate_of(talk: Conversation) -> dict[str, Any]:
    from tests.command_line import run

    assert (
        run(["certify", "talk", "--agent", "bob", "--never", "2", "--never", "swordfish", "-o", "c.json"])
        == 0
    )
    found: dict[str, Any] = json.loads(Path("c.json").read_text("utf-8"))
    return found


def checked(pack: bytes, *options: str) -> subprocess.CompletedProcess[str]:
    Path("pack").write_bytes(pack)
    command = [sys.executable, str(SCRIPT), "pack", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENOLOG_DB", "talks.db")


def test_a_stranger_checks_it_without_the_entry(talk: Conversation) -> None:
    certificate = json.dumps(certificate_of(talk))
    pack = pack_of(talk, statement=certificate, withheld=[2], requests="all")

    ran = checked(pack, "--text", "swordfish")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("nothing speaks against it: bob was never sent entry 2")
    assert "  checked: [4, 6]\n  not in the pack: []\n  withheld answers: []\n  texts: 1\n" in ran.stdout
    assert b"password" not in pack
    assert checked(pack, "--text", "herring").returncode == 1
    assert checked(pack_of(talk)).returncode == 2


def _part(certificate: dict[str, Any]) -> Any:
    return certificate["parts"][0]


CHANGES: dict[str, Change] = {
    "an answer is left out": lambda it: _part(it)["requests"].pop(),
    "a request is another": lambda it: _part(it)["requests"][0].update(sha256="0" * 64),
    "it was not given": lambda it: it.update(given=False),
    "a request shows it": lambda it: _part(it)["shown"].append({}),
    "an entry that was sent quotes it": lambda it: _part(it)["quoting"].append(3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_certificate_that_the_pack_speaks_against_is_refused(talk: Conversation, change: str) -> None:
    certificate = certificate_of(talk)
    CHANGES[change](certificate)

    ran = checked(pack_of(talk, statement=json.dumps(certificate), requests="all"))

    assert (ran.returncode, ran.stdout[:8]) == (1, "refused:")


def test_an_export_takes_only_a_certificate_of_its_conversation(talk: Conversation) -> None:
    from tests.command_line import run

    certificate_of(talk)
    given = ["--as", "evidence", "--certificate", "c.json", "--withhold", "2"]
    assert run(["export", "talk", *given, "-o", "pack"]) == 0
    assert checked(Path("pack").read_bytes()).returncode == 0
    talk.log["other"].append(UserMessage(text="Hello."))
    assert run(["export", "other", *given[:-2], "-o", "other"]) == 2
    Path("c.json").write_text("{}")
    assert run(["export", "talk", *given, "-o", "pack"]) == 2

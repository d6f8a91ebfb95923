"""Who decided about a call: a signature holds for one decision, by one key, in one conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Log,
    ModeSwitch,
    Tool,
    ToolCall,
    UserMessage,
)
from stenolog.adapters.conversation.verifying.decisions import check_decisions
from stenolog.adapters.engine.approvals import approval, decided, waiting
from stenolog.adapters.importers.evidence.signing import is_signed
from stenolog.engine import Approver
from stenolog.events import CallRef, Control, dump_event
from stenolog.maintenance import verify


class Key(NamedTuple):
    """A key to sign with."""

    private: Ed25519PrivateKey

    @property
    def key(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        return self.private.sign(text)


KEYS = [Key(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (1, 2)]


def waiting_for(log: Log, name: str, sales: int) -> Conversation:
    """Return a conversation in which so many calls wait for a person."""
    tools = (Tool(name="sell", approval=True),)
    calls = [ToolCall(id=f"c{nth}", name="sell", arguments=f'{{"n": {nth}}}') for nth in range(sales)]
    talk = log[name]
    talk.append(ModeSwitch(cards={"coder": AgentCard(model="m", tools=tools)}))
    talk.append(UserMessage(text="Sell.", to=["coder"]))
    talk.append(AssistantMessage(agent="coder", parts=calls))
    return talk


def outcomes(log: Log, *keys: Key) -> list[tuple[str, str]]:
    found = check_decisions(log, [key.key.hex() for key in keys], is_signed)
    return [(one.identity, one.outcome) for one in found]


def test_a_signed_decision_is_that_of_its_key_about_its_call_alone(tmp_path: Path) -> None:
    ann, bob, nobody = Approver("ann@example.org", KEYS[0]), Approver("bob", KEYS[1]), Approver("eve")
    with stenolog.open(tmp_path / "t.db") as log:
        talk = waiting_for(log, "shop", 4)
        for by, arguments in ((ann, None), (bob, {"n": 7}), (nobody, None)):
            talk.submit(UserMessage(control=approval(talk, waiting(talk)[0].call, arguments, by)))
        refusal = Control(action="refuse", call=waiting(talk)[0].call)
        talk.submit(UserMessage(control=decided(talk, refusal, ann)))
        talk.rename("renamed")
        talk.fork(name="fork")
        names = ["ann@example.org", "bob", "eve", "ann@example.org"]
        told = {
            (): ["signed", "signed", "unsigned", "signed"],
            (KEYS[0],): ["signed", "another key", "unsigned", "signed"],
            (KEYS[0], KEYS[1]): ["signed", "signed", "unsigned", "signed"],
        }
        for keys, expected in told.items():
            assert outcomes(log, *keys) == list(zip(names, expected, strict=True))
        assert verify(log).ok


def first_call_of(talk: Conversation, nth: int) -> CallRef:
    made = next(entry for entry in talk.entries() if isinstance(entry.event, AssistantMessage))
    return CallRef(entry=made.id, index=nth)


CHANGES: dict[str, dict[str, Any]] = {
    "verdict": {"action": "refuse"},
    "call": {"call": 1},
    "arguments": {"arguments": '{"n": 99}'},
    "identity": {"identity": "mallory"},
    "time": {"at": 5},
    "key": {"key": KEYS[1].key.hex()},
    "no key": {"key": "zz"},
    "no signature": {"value": ""},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_decision_that_was_not_signed_so_is_wrong(tmp_path: Path, change: dict[str, Any]) -> None:
    with stenolog.open(tmp_path / "t.db") as log:
        talk = waiting_for(log, "shop", 2)
        control = approval(talk, waiting(talk)[0].call, {"n": 3}, Approver("ann", KEYS[0]))
        assert control.signature is not None
        of_signature = {name: change[name] for name in ("at", "key", "value") if name in change}
        given = {name: value for name, value in change.items() if name not in of_signature}
        if "call" in given:
            given["call"] = first_call_of(talk, given["call"])
        if given.get("action") == "refuse":
            given["arguments"] = ""
        changed = replace(control, signature=replace(control.signature, **of_signature), **given)
        talk.append(UserMessage(control=changed))
        other = waiting_for(log, "other", 2)
        other.append(UserMessage(control=replace(control, call=first_call_of(other, 0))))

        assert [outcome for _, outcome in outcomes(log)] == ["wrong", "wrong"]


def test_the_command_signs_and_checks_decisions(cli: Callable[..., Any]) -> None:
    with stenolog.open("talks.db") as log:
        waiting_for(log, "shop", 3)
    for name, key in (("ann", KEYS[0]), ("bob", KEYS[1])):
        pem = key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        Path(f"{name}.pem").write_bytes(pem)
        public = key.private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        Path(f"{name}.pub").write_bytes(public)
    codes = [each.code for each in waiting(stenolog.open("talks.db")["shop"])]
    for verdict, who, code in zip(("approve", "refuse"), ("ann", "bob"), codes, strict=False):
        by = ("--identity", who, "--sign", f"{who}.pem")
        assert cli("submit", "--conversation", "shop", f"--{verdict}", code, *by).status == 0

    both = cli("check", "log", "--approvals", "--key", "ann.pub", "--key", KEYS[1].key.hex())
    assert both.status == 0
    assert "shop@4: sell approved by ann, key" in both.out
    assert "shop@5: sell refused by bob, key" in both.out
    one = cli("check", "log", "--key", "ann.pub")
    assert (one.status, "refuse of sell by bob: signed by a key that was not given" in one.err) == (1, True)
    assert cli("check", "log", "--key", "talks.db").status == 2
    assert cli("submit", "--conversation", "shop", "hello", "--identity", "ann").status == 2


def test_a_decision_without_identity_has_the_bytes_that_it_had() -> None:
    _, payload = dump_event(UserMessage(control=Control(action="approve", call=CallRef(entry="e1"))))

    assert payload == b'{"control":{"action":"approve","call":{"entry":"e1"}}}'

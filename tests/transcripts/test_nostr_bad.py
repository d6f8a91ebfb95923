"""Nostr: events in any order, broken ones, and services that are killed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

import stenolog
from stenolog import AssistantMessage, Entry, UserMessage
from stenolog.contrib.nostr.events import NostrEvent, checker
from stenolog.errors import MissingExtraError
from stenolog.importers import import_file
from stenolog.maintenance import verify
from tests.command_line import run
from tests.transcripts.given import Import, importing, lines
from tests.transcripts.signing import Json, bot, event, key, profile
from tests.transcripts.soundness import assert_sound

ROOT = event("ann", "Build it.", kind=11, to="pm")
GO = event("pm", "@coder go", ["phase", "build"], at=2, under=ROOT["id"], to="coder")
BUILT = event("coder", "Built.", at=4, under=ROOT["id"], to="pm")
WELL = event("ann", "Well done.", at=6, under=ROOT["id"], to="pm")
TALK = [bot("pm"), bot("coder"), profile("ann"), ROOT, GO, BUILT, WELL]
SHORT = f"event {BUILT['id'][:8]}…"


def texts(into: Import) -> list[str]:
    return [getattr(event, "text", "") for event in into.said]


def but(**changed: Any) -> Json:
    return {**BUILT, **changed}


def without(name: str) -> Json:
    return {field: value for field, value in BUILT.items() if field != name}


BAD = [
    pytest.param(but(content="Burnt."), f"{SHORT}: its id is not the hash of what it says", id="content"),
    pytest.param(but(pubkey=key("ann")), f"{SHORT}: its id is not the hash of what it says", id="author"),
    pytest.param(but(created_at=1), f"{SHORT}: its id is not the hash of what it says", id="time"),
    pytest.param(but(tags=[]), f"{SHORT}: its id is not the hash of what it says", id="tags"),
    pytest.param(but(sig=GO["sig"]), f"{SHORT}: its signature is not its author's", id="another's signature"),
    pytest.param(but(sig="0" * 128), f"{SHORT}: its signature is not its author's", id="no point"),
    pytest.param(but(sig="f" * 128), f"{SHORT}: its signature is not its author's", id="out of range"),
    pytest.param(but(sig=""), f"{SHORT}: it is not signed", id="empty signature"),
    pytest.param(without("sig"), f"{SHORT}: it is not signed", id="no signature"),
    pytest.param(but(sig="abc"), f"{SHORT}: sig: expected 128 hexadecimal digits", id="short signature"),
    pytest.param(but(pubkey="F" * 64), f"{SHORT}: pubkey: expected 64 hexadecimal digits", id="upper case"),
    pytest.param(but(id=7), "no event: id: expected 64 hexadecimal digits", id="no id"),
    pytest.param(without("kind"), "no event: expected an event of Nostr, found no kind", id="no kind"),
    pytest.param(but(kind=70000), f"{SHORT}: kind: expected a whole number from 0 to 65535", id="kind"),
    pytest.param(but(kind=True), f"{SHORT}: kind: expected a whole number from 0 to 65535", id="a truth"),
    pytest.param(but(created_at=-1), f"{SHORT}: created_at: expected a whole number", id="before 1970"),
    pytest.param(but(created_at=10**15), f"{SHORT}: created_at: expected a whole number", id="after 9999"),
    pytest.param(but(created_at=1.5), f"{SHORT}: created_at: expected a whole number", id="half a second"),
    pytest.param(but(tags=[["p", 7]]), f"{SHORT}: expected content that is a text", id="a tag of numbers"),
    pytest.param(but(tags=[[]]), f"{SHORT}: expected content that is a text", id="an empty tag"),
    pytest.param(but(tags={}), f"{SHORT}: expected content that is a text", id="tags that are no list"),
    pytest.param(but(content=None), f"{SHORT}: expected content that is a text", id="no content"),
    pytest.param("7", "no event: expected an event of Nostr, found no id", id="a number"),
    pytest.param('{"id": ', "not JSON", id="no JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_a_bad_record_is_skipped_with_its_reason_and_does_not_stop_the_rest(
    into: Import, bad: Json | str, why: str
) -> None:
    into.records(*TALK[:5], bad, WELL)

    [skipped] = into.report.skipped

    assert texts(into) == ["Build it.", "@coder go", "Well done."]
    assert skipped.line == 6
    assert skipped.reason.startswith(why)


@pytest.mark.parametrize(("bad", "why"), [each for each in BAD if not isinstance(each.values[0], str)])
def test_so_it_is_in_a_list_and_among_what_a_relay_said(into: Import, bad: Json, why: str) -> None:
    records = [*TALK[:5], bad, WELL]
    into.file(json.dumps(records).encode())
    of_list, found = texts(into), into.report.skipped

    into.records(*(json.dumps(["EVENT", "s", each]) for each in records))

    assert texts(into) == of_list
    assert [skipped._replace(unit="item") for skipped in into.report.skipped] == found
    assert (found[0].unit, found[0].reason[: len(why)]) == ("item", why)


POINT = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9"
SIGNATURE = (
    "e907831f80848d1069a5371b402410364bdf1c5f8307b0084c55f1ce2dca8215"
    "25f66a4a85ea8b71e482a74f382d2ce5ebeee8fdb2172f477df4900d310536c0"
)
NO_POINT = "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34"
BIP_340 = [
    (POINT, "00" * 32, SIGNATURE, True),
    (
        "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659",
        "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
        "6896bd60eeae296db48a229ff71dfe071bde413e6d43f917dc8dcf8c78de3341"
        "8906d11ac976abccb20b091292bff4ea897efcb639ea871cfa95f6de339e4b0a",
        True,
    ),
    (
        "dd308afec5777e13121fa72b9cc1b7cc0139715309b086c960e18fd969774eb8",
        "7e2d58d8b3bcdf1abadec7829054f90dda9805aab56c77333024b9d0a508b75c",
        "5831aaeed7b44bb74e5eab94ba9d4294c49bcf2a60728d8b4c200f50dd313c1b"
        "ab745879a5ad954a72c45a91c3a51d3c7adea98d82f8481e0e1e03674a6f3fb7",
        True,
    ),
    (NO_POINT, "00" * 32, SIGNATURE, False),
    (POINT, "01" + "00" * 31, SIGNATURE, False),
]


@pytest.mark.parametrize(("pubkey", "message", "signature", "is_signed"), BIP_340)
def test_signatures_are_those_of_bip_340(pubkey: str, message: str, signature: str, is_signed: bool) -> None:
    assert checker()(NostrEvent(message, pubkey, 0, 1, (), "", signature)) is is_signed


def test_without_the_extra_nothing_is_imported_and_the_error_is_the_line_that_installs_it(
    into: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "coincurve", None)

    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[nostr\]"'):
        into.records(*TALK)

    assert list(into.log) == []


def test_the_same_event_delivered_twice_is_stored_once(into: Import) -> None:
    into.records(*TALK, *TALK, BUILT)

    assert texts(into) == ["Build it.", "@coder go", "Built.", "Well done."]
    assert into.report.repaired == {"events that came more than once": 8}


def test_what_comes_late_stands_behind_what_is_there_and_changes_neither_phase_nor_title(
    into: Import,
) -> None:
    title = event("pm", "", ["e", ROOT["id"]], ["title", "New"], kind=513, at=3)
    late = event("pm", "Plan it.", ["phase", "plan"], ["title", "Old"], at=1, under=ROOT["id"])
    into.records(*TALK[:5], title)
    into.records(*TALK, title, late)

    assert texts(into) == ["Build it.", "@coder go", "Plan it.", "Built.", "Well done."]
    assert (into.conversation.settings().mode, into.conversation.settings().title) == ("build", "New")
    assert into.records(title, late, *reversed(TALK)).report.conversations[0].appended == 0


def test_another_conversation_under_the_same_name_is_refused_and_nothing_is_written(into: Import) -> None:
    into.records(*TALK)
    into.conversation.rename(str(WELL["id"]))
    before = list(into.log[str(WELL["id"])].entries())
    into.records(event("ann", "Something else.", ["e", WELL["id"], "", "root"], kind=1))

    [conversation] = into.report.conversations

    assert "found another conversation" in conversation.failed
    assert list(into.log[conversation.name].entries()) == before


def cut_anywhere() -> st.SearchStrategy[tuple[list[int], int, list[int]]]:
    order = st.permutations(range(len(TALK)))
    return st.tuples(order, st.integers(0, len(TALK)), st.lists(st.integers(0, len(TALK) - 1), max_size=5))


@given(cut_anywhere())
def test_in_any_order_with_any_repetition_and_cut_anywhere_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[int], int, list[int]]
) -> None:
    order, cut, twice = drawn
    records = [TALK[nth] for nth in [*order, *twice]]
    with importing(tmp_path_factory.mktemp("nostr")) as into:
        if cut:
            into.records(*records[:cut])
        into.records(*records)
        held = [entry for name in into.log for entry in into.log[name].entries()]

        assert sorted(e.id for e in held if _is_said(e)) == sorted(str(each["id"]) for each in TALK[3:])
        assert into.records(*reversed(records)).report.conversations[0].appended == 0
        assert_sound(into.log)


def _is_said(entry: Entry) -> bool:
    return entry.event.kind != "mode_switch"


def test_the_command_line_takes_names_and_tells_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, db = tmp_path / "talk.jsonl", tmp_path / "t.db"
    file.write_bytes(lines(ROOT, BUILT, but(content="Burnt.")))

    status = run(["import", str(file), "--name", "site", "--key", f"{key('coder')}=cody", "--db", str(db)])

    assert (status, "its id is not the hash" in capsys.readouterr().err) == (0, True)
    with stenolog.open(db) as log:
        assert log["site"].state().members == ("cody",)
    assert run(["import", str(file), "--key", "cody", "--db", str(db)]) == 2


def test_a_file_of_many_events_is_read_at_once(tmp_path: Path) -> None:
    conversation = [ROOT, *(event("coder", f"{nth}", at=nth, under=ROOT["id"]) for nth in range(1, 1200))]
    path = tmp_path / "many.jsonl"
    path.write_bytes(lines(*reversed(conversation)))
    with stenolog.open(":memory:") as log:
        [found] = import_file(log, path).conversations

    assert found.appended == 1201


SERVER = str(Path(__file__).with_name("relay_server.py"))
ROOT_NOSTR_KILLS = Path(__file__).resolve().parents[2]
ECHO = "import sys; print('heard', sys.stdin.read().split()[-1])"
NUMBER = 8
PATIENCE_SECONDS = 60


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, and kill it at the end of the block."""
    made = subprocess.Popen([sys.executable, *command], cwd=ROOT_NOSTR_KILLS, stderr=subprocess.DEVNULL)
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def eventually(call: Any) -> Any:
    """Return the result of a call that fails for a while, once it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if found := call():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise AssertionError("it took too long")


def put(url: str, made: dict[str, Any]) -> bool:
    """Give the relay an event, as a person's client does; whether it has it."""
    with connect(url, open_timeout=5) as client:
        client.send(json.dumps(["EVENT", made]))
        return bool(json.loads(client.recv(timeout=5))[2])


def stored(file: Path) -> list[dict[str, Any]]:
    """Return the events of the relay; a line that a kill has cut is none."""
    found = []
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


@pytest.mark.slow
def test_each_message_is_answered_once_whoever_is_killed_in_between(tmp_path: Path) -> None:
    random, file, db = Random(7), tmp_path / "relay.jsonl", tmp_path / "t.db"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    url = f"ws://127.0.0.1:{port}"
    (tmp_path / "keys.json").write_text(json.dumps({"coder": sha256(b"coder").hexdigest()}))
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "crew.toml").write_text(
        f'[agents.coder]\nmodel = {{ use = "cli:{sys.executable} {tmp_path / "echo.py"}" }}\n'
    )
    chat = ["-m", "stenolog", "chat", "--team", str(tmp_path / "crew.toml"), "--channel", "nostr"]
    chat += ["--db", str(db), "--option", f"relay={url}", "--option", f"keys={tmp_path / 'keys.json'}"]
    chat += ["--option", f"people={key('ann')}"]
    first = event("ann", "word0", kind=11, to="coder")
    asked = [first] + [
        event("ann", f"word{n}", at=n, under=first["id"], to="coder") for n in range(1, NUMBER)
    ]

    def answered() -> int:
        return sum((e["pubkey"], e["kind"]) == (key("coder"), 1111) for e in stored(file))

    for nth, question in enumerate(asked):
        with process(SERVER, port, str(file)):
            eventually(lambda q=question: put(url, q))
            with process(*chat):
                time.sleep(random.uniform(0.2, 2.0))
        with process(*chat):  # without a relay for a while, then with one
            time.sleep(random.uniform(0.0, 0.3))
            with process(SERVER, port, str(file)):
                eventually(lambda n=nth: answered() > n)

    with stenolog.open(db) as log:
        events = [entry.event for entry in log[first["id"]].entries()]
        report = verify(log)
    words = [e.text for e in events if isinstance(e, UserMessage) and e.author_kind == "person"]
    answers = [e.text for e in events if isinstance(e, AssistantMessage)]
    told = [e["content"] for e in stored(file) if (e["pubkey"], e["kind"]) == (key("coder"), 1111)]
    assert report.ok
    assert words == [f"word{n}" for n in range(NUMBER)]
    assert sorted(answers) == sorted(told) == sorted({*told}) == [f"heard word{n}" for n in range(NUMBER)]

"""Nostr events that are not what they say, that come twice, late, or in part."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import Entry
from stenolog.apps.cli import run
from stenolog.contrib.nostr.events import NostrEvent, checker
from stenolog.errors import MissingExtraError
from stenolog.importers import import_file
from tests.transcripts.given import Import, importing, lines
from tests.transcripts.signing import NOON, Json, bot, event, key, profile, signed
from tests.transcripts.soundness import assert_sound

ROOT = event("ann", "Build it.", kind=11, to="pm")
GO = event("pm", "@coder go", ["phase", "build"], at=2, under=ROOT["id"], to="coder")
BUILT = event("coder", "Built.", at=4, under=ROOT["id"], to="pm")
WELL = event("ann", "Well done.", at=6, under=ROOT["id"], to="pm")
TALK = [bot("pm"), bot("coder"), profile("ann"), ROOT, GO, BUILT, WELL]
SHORT = f"event {BUILT['id'][:8]}…"


def texts(into: Import) -> list[str]:
    return [getattr(event, "text", "") for event in into.said]


# What is not what it says


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


def test_so_it_is_in_a_conversation_that_tenex_keeps(into: Import) -> None:
    def packed(event: Json, content: str | None = None) -> str:
        made = [0, *[event[name] for name in ("pubkey", "created_at", "kind", "tags", "content")]]
        made[5] = event["content"] if content is None else content
        return json.dumps([*made, event["id"], event["sig"]])

    half = signed("coder", [0, key("coder"), NOON + 5, 1111, [["E", ROOT["id"]]], "Half \ufffd"])
    bad = [packed(BUILT, "Burnt."), "[" * 500, "7", '"', "[0, 1]", packed(BUILT)[:-9], 7]
    history = [packed(ROOT), *bad, packed(half, "Half \ud800"), packed(WELL)]
    into.file(json.dumps({"id": ROOT["id"], "title": "T", "history": history}).encode())

    assert texts(into) == ["Build it.", "Half \ufffd", "Well done."]
    assert [skipped.line for skipped in into.report.skipped] == [2, 3, 4, 5, 6, 7, 8]


def test_the_good_one_of_two_with_one_id_is_taken_whichever_comes_first(into: Import) -> None:
    into.records(*TALK[:5], but(sig="0" * 128), BUILT, but(sig=GO["sig"]), WELL)

    assert texts(into) == ["Build it.", "@coder go", "Built.", "Well done."]
    assert [skipped.line for skipped in into.report.skipped] == [6, 8]


def test_a_file_of_bad_events_alone_leaves_nothing(into: Import) -> None:
    into.records(but(content="Burnt."), but(sig="0" * 128))

    assert list(into.log) == []
    assert not into.report.holds_a_conversation


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


# Twice, late, in part


def test_the_same_event_delivered_twice_is_stored_once(into: Import) -> None:
    into.records(*TALK, *TALK, BUILT)

    assert texts(into) == ["Build it.", "@coder go", "Built.", "Well done."]
    assert into.report.repaired == {"events that came more than once": 8}


def test_of_a_file_that_has_grown_only_what_is_new_is_appended(into: Import) -> None:
    into.records(*TALK[:5])
    before = into.entries
    into.records(*TALK)

    [conversation] = into.report.conversations

    assert into.entries[: len(before)] == before
    assert (conversation.appended, conversation.already) == (2, len(before))
    assert texts(into) == ["Build it.", "@coder go", "Built.", "Well done."]
    assert into.records(*TALK).report.conversations[0].appended == 0


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


def test_a_file_that_begins_later_goes_on_with_its_conversation(into: Import) -> None:
    into.records(*TALK[:5])
    into.records(*TALK[:3], BUILT, WELL)

    assert texts(into) == ["Build it.", "@coder go", "Built.", "Well done."]


def test_a_profile_that_comes_later_renames_nobody_who_has_spoken(into: Import) -> None:
    untold = event("coder", "Built.", ["llm-model", "m"], at=4, under=ROOT["id"])
    into.records(ROOT, untold)
    into.records(*TALK[:3], ROOT, untold, event("coder", "And more.", at=5, under=ROOT["id"]))

    agents = [getattr(event, "agent", "") for event in into.said]

    assert agents == ["", key("coder")[:8], key("coder")[:8]]


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

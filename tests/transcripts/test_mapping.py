"""Files of any format, read by a mapping that says where their messages stand."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolResult, UserMessage
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import Refused, files_in, import_file, import_files, recognise
from tests.transcripts.given import Import, Json, lines

pytestmark = pytest.mark.usefixtures("sound")

MAPPING = """\
role = "from"
text = "body.text"
time = "at"
id = "key"

user = ["customer"]
assistant = ["bot"]
tool = ["shelf"]

calls.list = "tools"
calls.id = "ref"
calls.name = "fn.name"
calls.arguments = "fn.args"
result.call = "for"
result.error = "failed"
"""
TALK: list[Json] = [
    {"key": "m1", "from": "customer", "at": "2026-03-01T09:00:00Z", "body": {"text": "Fresh?"}, "shop": 4},
    {
        "key": "m2",
        "from": "bot",
        "at": "2026-03-01T09:00:05Z",
        "body": {"text": "I look."},
        "tools": [{"ref": "c1", "fn": {"name": "stock", "args": {"item": "rye"}}}],
    },
    {
        "key": "m3",
        "from": "shelf",
        "at": "2026-03-01T09:00:06Z",
        "body": {"text": "none"},
        "for": "c1",
        "failed": True,
    },
    {"key": "m4", "from": "bot", "at": "2026-03-01T09:00:09Z", "body": {"text": "Sold out."}},
]


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    return write(tmp_path, MAPPING)


def write(folder: Path, text: str, name: str = "shop.toml") -> Path:
    (path := folder / name).write_text(text, encoding="utf-8")
    return path


def said(into: Import) -> list[tuple[type, str]]:
    return [(type(event), getattr(event, "text", "")) for event in into.said]


SAID = [
    (UserMessage, "Fresh?"),
    (AssistantMessage, "I look."),
    (ToolResult, "none"),
    (AssistantMessage, "Sold out."),
]


def test_a_file_is_read_by_the_mapping_that_is_given(into: Import, mapping: Path) -> None:
    into.records(*TALK, mapping=mapping)
    asked, answer, result = into.said[:3]
    events: list[Any] = [asked, answer, result]

    assert (into.report.format, into.conversation.name, said(into)) == ("mapping", "talk", SAID)
    assert events[1].tool_calls[0].arguments == '{"item":"rye"}'
    assert (events[2].name, events[2].is_error, events[2].call is not None) == ("stock", True, True)
    assert (into.entries[1].id, into.entries[1].time.isoformat()) == ("m1", "2026-03-01T09:00:00+00:00")
    assert events[0].meta == {"mapping": {"shop": 4}}
    assert into.conversation.settings().title == "Fresh?"


def test_a_mapping_in_json_and_one_beside_the_file_say_the_same(into: Import, tmp_path: Path) -> None:
    given = {
        "role": "/from",
        "text": "/body/text",
        "user": "customer",
        "assistant": "bot",
        "tool": "shelf",
        "calls": {"list": "tools", "id": "ref", "name": "fn.name", "arguments": "fn.args"},
        "result": {"call": "for"},
    }
    write(tmp_path, json.dumps(given, indent=1), "talk.mapping.json")
    into.records(*TALK)

    assert (into.report.format, said(into)) == ("mapping", SAID)
    assert [file.name for file in files_in(tmp_path)] == ["talk.jsonl"]


def test_a_mapping_beside_a_file_that_has_changed_is_read_again(into: Import, tmp_path: Path) -> None:
    short = 'role = "from"\ntext = "body.text"\nid = "key"\nuser = "customer"\nassistant = []\n'
    write(tmp_path, short, "talk.mapping.toml")
    into.records(*TALK)
    assert said(into) == SAID[:1]
    write(tmp_path, MAPPING, "talk.mapping.toml")
    report = import_file(into.log, tmp_path / "talk.jsonl")

    assert (report.conversations[0].appended > 0, said(into)) == (True, SAID)


def test_the_usual_roles_need_no_word_in_the_mapping(into: Import, tmp_path: Path) -> None:
    short = write(tmp_path, 'role = "who"\ntext = "what"\n')
    roles = [("system", "You bake."), ("Human", "Hi"), ("AI", "Ho"), ("developer", "Be brief.")]
    into.records(*({"who": who, "what": what} for who, what in roles), mapping=short)

    assert said(into) == [(UserMessage, "Hi"), (AssistantMessage, "Ho"), (UserMessage, "Be brief.")]
    assert into.conversation.settings().card_of("assistant").persona == "You bake."


def test_agents_models_thoughts_and_titles_have_paths_of_their_own(into: Import, tmp_path: Path) -> None:
    told = 'role="r"\ntext="t"\nagent="n"\nmodel="m"\nreasoning="th"\n'
    told += 'title="topic"\nauthor="by"\nignore="ping"\n'
    records: list[Json] = [
        {"r": "system", "t": "You bake."},
        {"r": "user", "t": "Hi", "by": "ann", "topic": "Bread"},
        {"r": "ping"},
        {"r": "assistant", "t": "Ho", "n": "baker", "m": "gpt-5", "th": "Hm."},
        {"r": "assistant", "t": "Hey", "n": "taster"},
    ]
    into.records(*records, mapping=write(tmp_path, told))
    answers: list[Any] = [event for event in into.said if isinstance(event, AssistantMessage)]
    settings = into.conversation.settings()

    assert [(answer.agent, answer.text) for answer in answers] == [("baker", "Ho"), ("taster", "Hey")]
    assert (answers[0].parts[0].text, settings.title) == ("Hm.", "Bread")
    assert (settings.card_of("baker").persona, settings.card_of("baker").model) == ("You bake.", "gpt-5")
    assert into.report.conversations[0].ignored == {"role ping": 1}


def test_a_csv_and_a_document_with_a_list_in_it_are_read_too(into: Import, tmp_path: Path) -> None:
    plain = write(tmp_path, 'role = "who"\ntext = "what"\ntime = "when"\n')
    rows = io.StringIO(newline="")
    csv.writer(rows, delimiter=";").writerows(
        [("who", "what", "when"), ("user", 'Hi;\n"you"', "1740171566"), ("assistant", "Ho", "1740171570")]
    )
    into.file(b"\xef\xbb\xbf" + rows.getvalue().encode(), "talk.csv", mapping=plain)
    assert said(into) == [(UserMessage, 'Hi;\n"you"'), (AssistantMessage, "Ho")]
    assert into.entries[1].time.year == 2025

    inner = write(tmp_path, 'records = "chat.turns"\nrole = "who"\ntext = "what.*.text"\n', "inner.toml")
    turns = [{"who": "user", "what": [{"text": "a"}, {"text": "b"}]}, 7]
    into.file(json.dumps({"chat": {"turns": turns}}).encode(), "turns.json", mapping=inner)
    assert said(into) == [(UserMessage, "a\nb")]
    assert [str(skip.reason) for skip in into.report.skipped] == ["expected an object, found int"]


def test_each_value_of_the_conversation_is_a_conversation(into: Import, tmp_path: Path) -> None:
    told = write(tmp_path, 'role = "r"\ntext = "t"\nconversation = "chat.id"\n')
    records = [{"r": "user", "t": f"{n}", "chat": {"id": n % 3}} for n in range(6)]
    into.records(*records, mapping=told)
    again = import_file(into.log, tmp_path / "talk.jsonl", mapping=told)

    assert [found.name for found in into.report.conversations] == ["0", "1", "2"]
    assert [[getattr(e.event, "text", "") for e in into.log[name]][1:] for name in ("0", "1", "2")] == [
        ["0", "3"], ["1", "4"], ["2", "5"],
    ]  # fmt: skip
    assert [found.appended for found in again.conversations] == [0, 0, 0]


BAD = {
    "no role": ('text = "t"\n', 'shop.toml: expected role = "…", the path of the speaker'),
    "no text": ('role = "r"\n', 'shop.toml: expected text = "…", the path of the words'),
    "unknown": (
        'role = "r"\ntxt = "t"\n',
        "line 2: expected one of role, text, .*'txt'; did you mean 'text'",
    ),
    "no path": ('role = "r"\ntext = 4\n', 'shop.toml, line 2: expected text = "…", a path .*, found 4'),
    "not TOML": ('role = "r\n', "shop.toml, line 1: expected TOML"),
    "in a table": (
        'role = "r"\ntext = "t"\n\n[calls]\nname = "n"\ntime = "at"\n',
        r"line 6: expected one of list, .* found 'calls.time'; time belongs above \[calls\]",
    ),
    "dotted": (
        'role = "r"\ntext = "t"\ncalls.nam = "n"\n',
        "line 3: .* found 'calls.nam'; did you mean 'name'",
    ),
    "no values": (
        'role = "r"\ntext = "t"\nuser = [[1]]\n',
        r'line 3: expected user = \["…"\], values of the role',
    ),
    "no table": (
        'role = "r"\ntext = "t"\ncalls = "x"\n',
        r"line 3: expected a table, \[calls\], found \"x\"",
    ),
    "format": (
        'role = "r"\ntext = "t"\nformat = "xml"\n',
        'line 3: expected format = "json" or "csv", found "xml"',
    ),
    "delimiter": ('role = "r"\ntext = "t"\ndelimiter = "::"\n', "line 3: expected delimiter"),
    "broken JSON": ('{"role": "r",\n "text": "t"\n "user": 1}', "shop.toml, line 3: expected JSON"),
    "JSON": ('{"role": "r",\n "text": "t",\n "calls": {\n  "nam": "n"}}', "line 4: .* found 'calls.nam'"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_mapping_is_refused_with_its_line_before_anything_is_written(
    into: Import, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(CallerError, match=message):
        into.records(*TALK, mapping=write(tmp_path, text))
    assert list(into.log) == []


def test_a_mapping_that_fits_no_record_names_its_line_and_what_the_records_have(
    into: Import, tmp_path: Path
) -> None:
    wrong = write(tmp_path, 'role = "from"\ntext = "body.txt"\nuser = "customer"\n')
    with pytest.raises(
        UnknownFormatError, match=r'line 2: text = "body.txt": .* has key, from, at, body.text, shop'
    ):
        into.records(*TALK, mapping=wrong)
    other = write(tmp_path, 'role = "speaker"\ntext = "body.text"\n', "other.toml")
    with pytest.raises(UnknownFormatError, match='line 1: role = "speaker"'):
        into.records(*TALK, mapping=other)
    inner = write(tmp_path, 'role = "r"\ntext = "t"\nrecords = "a"\n', "inner.toml")
    with pytest.raises(UnknownFormatError, match="expected a list there, found dict"):
        into.file(b'{"a": {}}', mapping=inner)
    with pytest.raises(UnknownFormatError, match="expected records in the file, found none"):
        into.file(b"", mapping=wrong)
    with pytest.raises(CallerError, match="expected a file that can be read"):
        into.records(*TALK, mapping=tmp_path / "absent.toml")


def test_a_role_that_the_mapping_does_not_know_is_skipped_with_the_mappings_line(
    into: Import, mapping: Path
) -> None:
    into.records(*TALK, {"from": "ghost", "body": {"text": "boo"}}, {"body": {}}, mapping=mapping)
    first, second = into.report.conversations[0].skipped

    assert (first.line, first.unit) == (5, "record")
    assert "shop.toml, line 1: expected one of the roles" in first.reason
    assert first.reason.endswith('found from = "ghost"')
    assert second.reason.endswith("found no from")


def test_many_files_have_one_mapping_and_a_broken_one_does_not_stop_the_others(
    into: Import, tmp_path: Path, mapping: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(*TALK))
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines(*TALK)))
    found = list(import_files(into.log, sorted(tmp_path.glob("?.jsonl*")), mapping=mapping))

    assert [isinstance(each, Refused) for each in found] == [False, True, False]
    assert sorted(into.log) == ["a", "c.jsonl"]


def test_without_a_mapping_the_format_is_still_unknown(tmp_path: Path) -> None:
    (file := tmp_path / "talk.jsonl").write_bytes(lines(*TALK))
    with pytest.raises(UnknownFormatError, match="an object with the keys key, from"):
        recognise(file)


_ODD_SPEAKERS: tuple[object, ...] = ("customer", "bot", "shelf", 4, None, [])


def test_values_of_other_types_never_break_an_import(into: Import, mapping: Path) -> None:
    odd: list[Any] = [
        None,
        1,
        1.5,
        True,
        "",
        "x",
        [],
        [None],
        {},
        {"text": 4},
        {"text": []},
        {"text": {"a": 1}},
    ]
    records = [
        {"from": who, "body": value, "at": value, "key": value, "tools": value, "for": value, "failed": value}
        for who in _ODD_SPEAKERS
        for value in odd
    ]
    into.records(*TALK, *records, mapping=mapping)
    (found,) = into.report.conversations
    again = import_file(into.log, into.report.file, mapping=mapping)

    assert (found.failed, len(found.skipped)) == ("", 3 * len(odd))
    assert [one.appended for one in again.conversations] == [0]

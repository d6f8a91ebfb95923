"""Large tool output: a preview in a request, of the same bytes always, that says how the whole is read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.domain.events import ToolResult
from stenolog.domain.parts import FilePart, ImagePart, TextPart
from stenolog.domain.policy import TruncateToolOutput
from stenolog.projections.messages.sizes import ESTIMATE, Counter, measure
from stenolog.projections.requests.pipeline.truncation import (
    LONGEST_READ,
    READ_OUTPUT,
    RESULTS,
    WHOLE,
    alias,
    compact,
    cut_after,
    cut_before,
    entry_of,
    parse,
    preview,
    sketch,
)

RULE = TruncateToolOutput()
MEGABYTES = 5 * 1024 * 1024
WORDS = Counter("words@1", lambda text: len(re.findall(r"\w+|[^\w\s]", text)))
LINES = "".join(f"{n:06} all is well\n" for n in range(MEGABYTES // 19))
ROWS = [{"id": n, "name": f"name {n}", "tags": ["a", "b"]} for n in range(100_000)]
LARGE = {
    "lines": LINES,
    "one line": "x" * MEGABYTES,
    "blanks": " " * MEGABYTES,
    "rows": json.dumps(ROWS),
    "long text in an object": json.dumps({"status": 0, "out": LINES, "ok": True}),
    "digits": "[" + "1" * MEGABYTES,
    "brackets": "[" * MEGABYTES,
    "cyrillic": "Слово и дело. " * (MEGABYTES // 24),
    "families": "👨‍👩‍👧‍👦" * (MEGABYTES // 25),
}


def shown(
    text: str, rule: TruncateToolOutput = RULE, counter: Counter = ESTIMATE, entry_id: str = "e1"
) -> str:
    """Return the preview, which there must be."""
    made = preview(text, alias(entry_id), rule, counter)
    assert made is not None
    return made.text


class Tokenizer:
    """A counter that notes the longest text it was asked about."""

    def __init__(self) -> None:
        self.longest = 0

    def __call__(self, text: str) -> int:
        self.longest = max(self.longest, len(text))
        return len(text) // 3


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("entry_id", ["e1", "e" * 64, "naïve id " * 22], ids=["short", "long", "unfit"])
def test_a_result_of_5_mb_costs_at_most_400_tokens(text: str, entry_id: str) -> None:
    made = preview(text, alias(entry_id), RULE, ESTIMATE)

    assert made is not None
    assert made.tokens_out == ESTIMATE.count(made.text) <= 400


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_tokenizer_is_never_given_a_long_text(text: str) -> None:
    tokenizer = Tokenizer()
    preview(text, alias("e1"), RULE, Counter("noting", tokenizer))

    assert tokenizer.longest <= 8 * (RULE.head + RULE.tail)


def test_the_preview_is_the_beginning_the_end_and_how_to_read_the_whole() -> None:
    text = "".join(f"line {n}\n" for n in range(10_000))

    lines = shown(text, TruncateToolOutput(head=6, tail=6)).splitlines()

    assert lines == [
        "line 0",
        "line 1",
        "line 2",
        "[… 98,849 characters left out …]",
        "line 9998",
        "line 9999",
        "[preview of 98,890 characters, about 24,723 tokens; the whole: "
        'read_output(path="@state/logs/tool-results/e1.json", offset=21)]',
    ]


def test_the_offset_is_where_the_beginning_ends() -> None:
    text = "".join(f"word {n} " for n in range(5_000))

    made = shown(text)
    offset = int(re.findall(r"offset=(\d+)\)\]$", made)[0])

    assert made.startswith(text[:offset] + "\n[… ")


def test_what_is_not_over_the_limit_stays_as_it_is() -> None:
    assert preview("x" * 4_000, alias("e1"), RULE, ESTIMATE) is None
    assert preview("x" * 4_001, alias("e1"), RULE, ESTIMATE) is not None


def test_what_a_preview_would_not_make_smaller_stays_as_it_is() -> None:
    assert preview("word " * 60, alias("e1"), TruncateToolOutput(over=10), ESTIMATE) is None
    assert preview(json.dumps([1] * 60), alias("e1"), TruncateToolOutput(over=10), ESTIMATE) is None


@pytest.mark.parametrize("text", ["word " * 3_000, json.dumps(ROWS[:1_000]), json.dumps(ROWS)])
def test_neither_head_nor_tail_leaves_the_line_alone(text: str) -> None:
    made = shown(text, TruncateToolOutput(over=10, head=0, tail=0))

    assert made.splitlines()[0] == f"[… {len(text):,} characters left out …]"
    assert len(made.splitlines()) == 2


@given(
    text=st.text(min_size=1, max_size=3_000) | st.text("ab \n", min_size=1, max_size=3_000),
    head=st.integers(0, 60),
    tail=st.integers(0, 60),
    counter=st.sampled_from([ESTIMATE, WORDS]),
)
def test_a_preview_has_the_head_and_the_tail_of_its_text_and_no_more_than_the_rule_says(
    text: str, head: int, tail: int, counter: Counter
) -> None:
    made = preview(text, alias("e1"), TruncateToolOutput(over=1, head=head, tail=tail), counter)

    if made is None:
        return
    end = int(re.findall(r"offset=(\d+)\)\]$", made.text)[0])
    assert made.text.startswith(text[:end])
    body, _, _ = made.text.rpartition("\n")
    rest = body[end:].removeprefix("\n")
    mark, _, last = rest.partition("\n")
    left_out = int(re.findall(r"[\d,]+", mark)[0].replace(",", ""))
    assert end + left_out + len(last) in (len(text), len(text) - 1)  # a last line feed is not doubled
    assert text.removesuffix("\n").endswith(last)
    assert counter.count(text[:end]) <= head
    assert counter.count(last) <= tail
    assert made.tokens_out < made.tokens_in


@given(st.text(max_size=2_000), st.integers(1, 50))
def test_the_same_text_has_the_same_preview_and_a_preview_needs_none(text: str, over: int) -> None:
    rule = TruncateToolOutput(over=over, head=5, tail=5)
    once, again = (preview(text, alias("e1"), rule, ESTIMATE) for _ in range(2))

    assert once == again
    if once is not None:
        assert preview(once.text, alias("e1"), TruncateToolOutput(over=once.tokens_out), ESTIMATE) is None


# Cutting


CLUSTERS = ["é", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "\r\n", "❤️", "नि", "กำ", "가"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nothing_that_a_reader_sees_as_one_is_cut_in_two(cluster: str) -> None:
    text = f"a{cluster}b"
    inside = range(2, 1 + len(cluster))

    assert [cut_before(text, at) for at in inside] == [1] * len(inside)
    assert [cut_after(text, at) for at in inside] == [1 + len(cluster)] * len(inside)


@given(st.text(max_size=100), st.data())
def test_a_place_to_cut_is_near_and_before_no_accent(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))

    assert at - 32 <= cut_before(text, at) <= at <= cut_after(text, at) <= at + 32
    for place in {cut_before(text, at), cut_after(text, at)} - {0, at, len(text)}:
        assert not "\u0300" <= text[place] <= "\u036f"


def test_marks_without_an_end_are_cut_all_the_same() -> None:
    zalgo = "z" + "\u0301" * 1_000

    assert cut_before(zalgo, 500) == cut_after(zalgo, 500) == 500


# JSON


def drawn(value: Any, tokens: int = 300) -> str:
    """Return the sketch of a value, written as JSON."""
    found = parse(json.dumps(value))
    assert found is not None
    return sketch(found, tokens, ESTIMATE)


def test_json_that_fits_is_shown_as_it_is() -> None:
    value = {"ok": True, "rows": [1, 2.5, None], "deep": {"ä": "x"}, "none": [], "nothing": {}}

    assert json.loads(drawn(value)) == value


def test_a_sketch_has_keys_types_lengths_and_first_elements() -> None:
    value = {"ok": True, "rows": ROWS[:500], "log": "begun " * 1_000, "page": {"next": None, "of": 7}}

    rows = ", ".join(json.dumps(row) for row in ROWS[:3])
    assert drawn(value, 100) == (
        f'{{"ok": true, "rows": [500 items: {rows}, …], '
        f'"log": "{"begun " * 20}…" (6,000 characters), "page": {{"next": null, "of": 7}}}}'
    )


def test_a_sketch_of_few_tokens_still_has_the_keys() -> None:
    value = {"status": 1, "rows": ROWS[:500], **{f"key{n}": n for n in range(50)}}

    assert drawn(value, 25) == (
        '{"status", "rows", "key0", "key1", "key2", "key3", "key4", "key5", … 44 more keys}'
    )
    assert drawn(ROWS[:500], 5) == "[500 items]"
    assert drawn(value, 3) == ""


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
        lambda inner: (
            st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=30)
        ),
        max_leaves=60,
    ),
    tokens=st.integers(0, 200),
)
def test_a_sketch_never_has_more_tokens_than_it_may(value: Any, tokens: int) -> None:
    found = parse(json.dumps(value, ensure_ascii=False))

    if found is not None:
        assert ESTIMATE.count(sketch(found, tokens, ESTIMATE)) <= tokens


def test_json_too_long_to_be_read_is_sketched_from_its_beginning_and_ends_with_its_end() -> None:
    lines = shown(json.dumps({"first": 1, "out": "y" * WHOLE, "last": 2})).splitlines()

    assert lines[0].startswith('{"first": 1, "out": "yyy')
    assert lines[0].endswith(" characters or more), … 2 keys or more}")
    assert lines[1] == "[… and its end …]"
    assert lines[2].endswith('yyy", "last": 2}')
    assert lines[3].endswith("offset=0)]")


def test_half_a_number_is_not_shown_as_another() -> None:
    found = parse('{"n": ' + "7" * (WHOLE + 1) + "}")

    assert found is None


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "[INFO] begun",
        '"a text"',
        "[1] and so on",
        '{"a": 1}\n{"b": 2}',
        '{"a": "\\ud800"}',
        "[" * 5_000 + "]" * 5_000,
        "[1] " + "and so on " * WHOLE,
        '{"a": 1}\n' * WHOLE,
        "[" + " " * 2 * WHOLE,
    ],
)
def test_what_is_no_json_as_a_whole_is_no_json(text: str) -> None:
    assert parse(text) is None


# Parts


def test_pictures_and_files_stay_in_their_places() -> None:
    picture, file = ImagePart(blob="0" * 64), FilePart(name="a.pdf", blob="1" * 64)
    result = ToolResult(
        call_id="c", parts=(picture, TextPart(text="word " * 2_000), file, TextPart(text="end"))
    )

    parts = compact(result, "e1", RULE, ESTIMATE)

    assert parts is not None
    assert [type(part) for part in parts] == [ImagePart, TextPart, FilePart]
    assert parts[::2] == (picture, file)
    assert isinstance(parts[1], TextPart)
    assert "\nend\n[preview of 10,004 characters" in parts[1].text


def test_a_small_result_and_one_without_a_rule_are_left_as_they_are() -> None:
    assert compact(ToolResult(call_id="c", text="few words"), "e1", RULE, ESTIMATE) is None
    assert compact(ToolResult(call_id="c", text=LINES), "e1", None, ESTIMATE) is None
    assert compact(ToolResult(call_id="c", parts=(ImagePart(blob="0" * 64),)), "e1", RULE, ESTIMATE) is None


@pytest.mark.parametrize("rule", [None, RULE])
def test_a_stored_preview_gets_the_line_with_its_alias_alone(rule: TruncateToolOutput | None) -> None:
    result = ToolResult(call_id="c", text="the beginning", blob="0" * 64)

    path = f"{RESULTS}e1.json"

    parts = compact(result, path, rule, ESTIMATE)

    assert parts == (TextPart(text=f'the beginning\n[the whole: read_output(path="{path}", offset=0)]'),)


def test_a_stored_preview_that_is_itself_too_long_is_cut_down() -> None:
    parts = compact(ToolResult(call_id="c", text=LINES, blob="0" * 64), "e1", RULE, ESTIMATE)

    assert parts is not None
    assert isinstance(parts[0], TextPart)
    assert ESTIMATE.count(parts[0].text) <= 400


def test_what_read_output_gave_is_not_cut_down_again() -> None:
    read, other = LINES[:LONGEST_READ], LINES[: LONGEST_READ * 2]

    assert compact(ToolResult(call_id="c", name=READ_OUTPUT, text=read), "e1", RULE, ESTIMATE) is None
    assert compact(ToolResult(call_id="c", name=READ_OUTPUT, text=other), "e1", RULE, ESTIMATE) is not None


def test_a_long_text_is_estimated_and_a_short_one_counted() -> None:
    assert measure("word " * 1_000, WORDS) == 1_000
    assert measure("word " * 100_000, WORDS) == 125_000


# Aliases


@pytest.mark.parametrize("entry_id", ["e1", "8f3a1b2c4d5e6f70", "toolu_01A-b.c", "E" * 64])
def test_an_alias_holds_the_id_of_its_entry(entry_id: str) -> None:
    assert alias(entry_id) == f"@state/logs/tool-results/{entry_id}.json"


@given(st.text(min_size=1, max_size=200) | st.text("./a~\\-", min_size=1, max_size=70))
def test_an_alias_is_a_harmless_path_that_gives_back_its_id_or_needs_a_search(entry_id: str) -> None:
    path = alias(entry_id)

    assert re.fullmatch(r"@state/logs/tool-results/[A-Za-z0-9_-][A-Za-z0-9._~-]{0,90}\.json", path)
    assert ".." not in path
    assert entry_of(path) in (entry_id, "")


def test_ids_that_are_unfit_in_the_same_way_have_aliases_of_their_own() -> None:
    unfit = ["a/b", "a\\b", "a:b", "a b", "../b", "..", ".", "", "é", "a" * 65, "a" * 66, "x.", "~", "a~b"]

    assert len({alias(entry_id) for entry_id in unfit}) == len(unfit)
    assert [entry_of(alias(entry_id)) for entry_id in unfit] == [""] * len(unfit)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "e1",
        "/etc/passwd",
        f"{RESULTS}../e1.json",
        f"{RESULTS}e1",
        f"{RESULTS}a/b.json",
        f"{RESULTS}.json",
    ],
)
def test_what_is_no_alias_names_no_entry(path: str) -> None:
    assert entry_of(path) is None

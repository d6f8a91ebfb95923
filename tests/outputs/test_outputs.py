"""The whole of what tools gave back: by alias, piece by piece, as files, and by the tool `read_output`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, Log, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries.outputs import READ, store_large
from stenolog.adapters.conversation.queries.read_output import read_output, read_output_tool, run_read_output
from stenolog.errors import BlobNotFoundError, CallerError, PositionNotFoundError
from stenolog.parts import FilePart
from stenolog.projections.requests.pipeline.truncation import LONGEST_READ, alias
from tests.outputs.given import LARGE, PLAN, RESULTS, artifact

# Looking up


def test_every_result_and_every_artifact_is_there_by_its_alias(conversation: Conversation) -> None:
    assert dict(conversation.outputs) == {
        f"{RESULTS}/small.json": "a\nb",
        f"{RESULTS}/large.json": LARGE,
        alias("odd/../id: 7"): "one\ntwo",
        PLAN: "# The plan",
    }
    assert len(conversation.outputs) == 4
    assert all(path in conversation.outputs for path in conversation.outputs)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "small",
        "/etc/passwd",
        "../talks.db",
        f"{RESULTS}/../small.json",
        f"{RESULTS}/small",
        f"{RESULTS}/a/small.json",
        f"/{RESULTS}/small.json",
        f"./{RESULTS}/small.json",
        "@state/other/small.json",
        "@project/artifacts/../docs/plan.md",
        "@project/artifacts//docs/plan.md",
        "@project/artifacts/.git/config",
        "@project/artifacts/",
        f"{PLAN}\n",
        7,
        None,
    ],
)
def test_what_is_no_alias_is_refused_and_the_error_says_what_one_looks_like(
    conversation: Conversation, path: Any
) -> None:
    assert path not in conversation.outputs
    assert conversation.outputs.get(path, "none") == "none"
    with pytest.raises(CallerError, match=r"expected @state/logs/tool-results/<entry id>.json or @project"):
        conversation.outputs[path]


@pytest.mark.parametrize(
    "path", [f"{RESULTS}/other.json", alias("odd: 8"), f"{RESULTS}/opening.json", "@project/artifacts/none"]
)
def test_an_alias_that_no_output_has_is_an_unknown_position(conversation: Conversation, path: str) -> None:
    assert path not in conversation.outputs
    with pytest.raises(PositionNotFoundError, match="'build': no entry has the alias"):
        conversation.outputs[path]


def test_a_conversation_that_does_not_exist_yet_has_no_outputs(log: Log) -> None:
    assert list(log["empty"].outputs) == []
    assert f"{RESULTS}/small.json" not in log["empty"].outputs


def test_a_blob_that_is_gone_is_missing_by_the_name_of_its_alias(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["build"].append(store_large(log, ToolResult(call_id="c", text=LARGE)), id="large")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM blobs")
    connection.close()

    with (
        stenolog.open(path) as log,
        pytest.raises(BlobNotFoundError, match=r"large\.json: .* no blob with the sha256"),
    ):
        log["build"].outputs[f"{RESULTS}/large.json"]


def test_what_is_no_text_is_told_apart_and_its_bytes_can_be_had(log: Log) -> None:
    conversation = log["build"]
    conversation.append(UserMessage(parts=[artifact(log, b"\x89PNG\r\n\xff")]))

    with pytest.raises(CallerError, match="expected text in UTF-8, found 7 bytes"):
        conversation.outputs[PLAN]
    assert conversation.outputs.content(conversation.outputs.find(PLAN)) == b"\x89PNG\r\n\xff"


def test_an_artifact_is_its_last_version_whoever_brought_it(conversation: Conversation) -> None:
    conversation.append(ToolResult(call_id="c4", parts=[artifact(conversation.log, "# A better plan")]))

    assert conversation.outputs[PLAN] == "# A better plan"
    assert list(conversation.outputs).count(PLAN) == 1


def test_a_file_with_another_name_is_no_artifact(log: Log) -> None:
    conversation = log["build"]
    conversation.append(
        UserMessage(parts=[artifact(log, "x", "plan.md"), artifact(log, "x", f"{PLAN}/../x")])
    )
    conversation.append(UserMessage(parts=[FilePart(name=PLAN, url="https://example.org/plan.md")]))

    assert list(conversation.outputs) == []


def test_a_fork_has_what_it_inherits_and_nothing_that_came_later(conversation: Conversation) -> None:
    fork = conversation.fork(after=5)
    conversation.append(ToolResult(call_id="c5", text="later"), id="later")
    fork.append(ToolResult(call_id="c5", text="otherwise"), id="later")
    fork.append(ToolResult(call_id="c6", text="mine"), id="mine")

    assert fork.outputs[f"{RESULTS}/large.json"] == LARGE
    assert fork.outputs[f"{RESULTS}/later.json"] == "otherwise"
    assert conversation.outputs[f"{RESULTS}/later.json"] == "later"
    assert f"{RESULTS}/mine.json" not in conversation.outputs
    assert PLAN not in fork.outputs


# Reading


def test_pieces_read_one_after_the_other_are_the_whole(conversation: Conversation) -> None:
    pieces, offset = [], 0
    while True:
        read = conversation.outputs.read(f"{RESULTS}/large.json", offset, 999)
        pieces.append(read.text)
        if read.next is None:
            break
        offset = read.next

    assert "".join(pieces) == LARGE
    assert {len(piece) for piece in pieces[:-1]} == {999}


def test_characters_are_counted_not_bytes_and_none_is_cut_in_two(log: Log) -> None:
    conversation = log["build"]
    conversation.append(ToolResult(call_id="c", text="Да 👨‍👩‍👧‍👦!"), id="e")
    read = conversation.outputs.read(f"{RESULTS}/e.json", 0, 5)

    assert read == ("Да ", 0, 3, 11)
    assert conversation.outputs.read(f"{RESULTS}/e.json", 3, 1).text == "👨"  # less than one would be nothing


def test_reading_begins_at_the_beginning_and_goes_on_for_as_long_as_is_said(
    conversation: Conversation,
) -> None:
    path = f"{RESULTS}/large.json"

    assert conversation.outputs.read(path).end == READ
    assert conversation.outputs.read(path, limit=None).text == LARGE
    assert conversation.outputs.read(path, len(LARGE)) == ("", len(LARGE), len(LARGE), len(LARGE))


@pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (len(LARGE) + 1, 1), (0, 0), (0, -5)])
def test_a_place_outside_the_text_is_refused(conversation: Conversation, offset: int, limit: int) -> None:
    with pytest.raises(CallerError, match=rf"large\.json: expected .*, found {min(offset, limit) or offset}"):
        conversation.outputs.read(f"{RESULTS}/large.json", offset, limit)


# The tool


def test_an_agent_reads_on_where_the_preview_ends(conversation: Conversation) -> None:
    """A whole turn: the preview in the request names a call, and the call gives what comes next."""
    call = ToolCall(
        id="r1", name="read_output", arguments=f'{{"path": "{RESULTS}/large.json", "offset": 10}}'
    )
    result = read_output(conversation, call, "coder")

    assert (result.call_id, result.name, result.is_error) == ("r1", "read_output", False)
    text, _, ending = result.text.rpartition("\n")
    assert text == LARGE[10 : 10 + READ]
    assert ending == f"[characters 10 to {READ + 10:,} of {len(LARGE):,}; go on with offset={READ + 10}]"


def test_the_end_is_told(conversation: Conversation) -> None:
    read = run_read_output(conversation, f'{{"path": "{RESULTS}/small.json"}}', "coder")

    assert read == "a\nb\n[characters 0 to 3 of 3; this is the end]"


def test_an_agent_reads_at_most_so_much_at_a_time(conversation: Conversation) -> None:
    read = run_read_output(conversation, f'{{"path": "{RESULTS}/large.json", "limit": 1000000}}', "coder")

    assert read.startswith(LARGE[:LONGEST_READ])
    assert read.endswith(f"go on with offset={LONGEST_READ}]")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("", "expected {"),
        ("[]", "expected {"),
        ("[" * 100_000, "expected {"),
        ('{"path": "x", "file": 1}', "expected {"),
        ('{"offset": 1}', "expected @state"),
        ('{"path": 7}', "path: expected a text, found 7"),
        ('{"path": "x", "offset": "1"}', "offset: expected a whole number, found '1'"),
        ('{"path": "x", "limit": 1.5}', "limit: expected a whole number, found 1.5"),
        ('{"path": "x", "limit": true}', "limit: expected a whole number, found True"),
        ('{"path": "../secret"}', "found '../secret'"),
        (f'{{"path": "{RESULTS}/small.json", "offset": 4}}', "expected an offset from 0 to 3, found 4"),
    ],
)
def test_a_wrong_call_is_an_error_that_the_agent_is_told(
    conversation: Conversation, arguments: str, what: str
) -> None:
    with pytest.raises(CallerError) as caught:
        run_read_output(conversation, arguments, "coder")
    result = read_output(conversation, ToolCall(id="r1", name="read_output", arguments=arguments), "coder")

    assert what in str(caught.value)
    assert (result.is_error, result.text) == (True, str(caught.value))
    assert len(result.text) < 500


def test_the_schema_of_the_tool_takes_what_the_tool_takes() -> None:
    tool = read_output_tool()

    assert tool.name == "read_output"
    assert list(tool.parameters["properties"]) == ["path", "offset", "limit"]  # type: ignore[arg-type]
    assert tool.parameters["required"] == ["path"]
    assert json.loads(json.dumps(tool.parameters)) == tool.parameters


# Producers


def test_a_large_result_leaves_a_small_event_and_loses_nothing(log: Log) -> None:
    conversation, event = (
        log["build"],
        ToolResult(call_id="c", name="pytest", text=LARGE, is_error=True, tags=["ci"]),
    )

    stored = store_large(log, event)
    conversation.append(stored, id="large")

    assert len(stored.text) < 1_300
    assert stored.text.startswith("line 0, all is well\n")
    assert stored.text.endswith("line 4999, all is well")
    assert (stored.call_id, stored.name, stored.is_error, stored.tags) == ("c", "pytest", True, ("ci",))
    assert conversation.outputs[f"{RESULTS}/large.json"] == event.text


def test_pictures_stay_beside_the_preview(log: Log) -> None:
    picture = stenolog.parts.ImagePart(blob=log.blobs.put(b"png"))

    stored = store_large(log, ToolResult(call_id="c", parts=[picture, TextPart(text=LARGE)]))

    assert stored.parts[0] == picture
    assert len(stored.parts) == 2


@pytest.mark.parametrize(
    "event",
    [
        ToolResult(call_id="c", text="few words"),
        ToolResult(call_id="c", text=LARGE, blob="0" * 64),
        ToolResult(call_id="c", name="read_output", text=LARGE),
    ],
)
def test_what_is_small_or_stored_or_just_read_stays_as_it_is(log: Log, event: ToolResult) -> None:
    assert store_large(log, event) is event
    assert len(log.blobs) == 0


def test_what_counts_as_large_can_be_said(log: Log) -> None:
    event = ToolResult(call_id="c", text="word " * 1_000)

    assert store_large(log, event, over=1_250) is event
    assert store_large(log, event, over=1_249).blob


# In a request


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "plain"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_result_of_5_mb_costs_the_request_400_tokens(log: Log, api: str, stored: bool) -> None:
    from stenolog.context import TruncateToolOutput

    conversation, text = log["build"], LARGE * 48
    result = ToolResult(call_id="c1", text=text)
    conversation.append(UserMessage(text="Run the tests."))
    conversation.append(AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="pytest")]))
    conversation.append(store_large(log, result) if stored else result, id="big")

    request = conversation.request("coder", api=api, policy=TruncateToolOutput())

    (part,) = [part for part in request.parts if part.rule == "compact"]
    assert part.positions == (4,)
    assert part.tokens_out <= 400
    assert len(request.bytes) < 4_000
    assert f"{RESULTS}/big.json" in request.bytes.decode()
    assert conversation.outputs[f"{RESULTS}/big.json"] == text

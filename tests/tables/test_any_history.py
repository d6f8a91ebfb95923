"""A table is always what its function makes of each conversation.

This holds whatever happens to a log, by whichever program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Log,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.contrib.workflow import conversation_messages
from stenolog.errors import ConversationExistsError
from stenolog.parts import ReasoningPart
from stenolog.tables import Delete, attach_table
from tests.tables.given import lines, plain_sql, scores, scores_in

NAMES = st.sampled_from("abc")
KEPT = st.booleans()
TEXTS = st.sampled_from(["one", "one\ntwo", ""])
SCORES = st.sampled_from(["ann x", "ann xx", "-ann"])
ACTS = st.one_of(
    st.tuples(st.just("say"), KEPT, NAMES, TEXTS, st.integers(0, 9)),
    st.tuples(st.just("score"), KEPT, NAMES, SCORES, st.integers(0, 9)),
    st.tuples(st.just("fork"), KEPT, NAMES, NAMES, st.integers(0, 9)),
    st.tuples(st.just("rename"), KEPT, NAMES, NAMES, st.just(0)),
    st.tuples(st.just("delete"), KEPT, NAMES, st.just(""), st.just(0)),
)
QUERIES = {
    "lines": "SELECT talk, at, line FROM lines ORDER BY talk, at, line",
    "scores": "SELECT talk, mail, score FROM scores ORDER BY talk, mail",
}


def act(log: Log, what: str, name: str, text: str, number: int) -> None:
    """Do one thing, if it can be done."""
    conversation = log[name]
    if what == "say":
        edits = number if 0 < number <= conversation.position else None
        conversation.append(UserMessage(text=text, replaces=edits))
    elif what == "score":
        edits = number if 0 < number <= conversation.position else None
        conversation.append(AssistantMessage(agent="writer", text=text, replaces=edits))
    elif name in log:
        try:
            if what == "fork":
                conversation.fork(after=min(number, conversation.position), name=text)
            elif what == "rename":
                conversation.rename(text)
            else:
                conversation.delete()
        except ConversationExistsError:
            pass


def line_rows(name: str, entries: list[Entry]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `lines`, as one would say it in a loop over one conversation."""
    first: dict[int, int] = {}
    standing: dict[int, list[tuple[Any, ...]]] = {}
    for entry in entries:
        edited = getattr(entry.event, "replaces", None)
        place = first[entry.position] = entry.position if edited is None else first[edited]
        said = entry.event.text if isinstance(entry.event, UserMessage) else ""
        standing[place] = [(name, entry.position, line) for line in said.splitlines()]
    for rows in standing.values():
        yield from rows


def score_rows(name: str, entries: list[Entry]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `scores`, in the same way."""
    standing: dict[str, float] = {}
    first: dict[int, int] = {}
    for entry in entries:
        edited = getattr(entry.event, "replaces", None)
        first[entry.position] = entry.position if edited is None else first[edited]
    latest = {place: at for at, place in first.items()}
    counted = (entry for entry in entries if latest[first[entry.position]] == entry.position)
    for given_ in (row for entry in counted for row in scores_in(entry)):
        if isinstance(given_, Delete):
            standing.pop(str(given_.key), None)
        else:
            standing[given_["mail"]] = float(given_["score"])
    yield from ((name, mail, score) for mail, score in standing.items())


@given(before=st.lists(ACTS, max_size=6), after=st.lists(ACTS, min_size=4, max_size=20))
def test_a_table_kept_is_the_table_made_anew_and_what_its_function_says(
    before: list[Any], after: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "talks.db"
        log = stack.enter_context(stenolog.open(path, synchronous="normal"))
        other = stack.enter_context(stenolog.open(path, synchronous="normal"))
        for what, _, name, text, number in before:
            act(log, what, name, text, number)
        kept = [attach_table(log, lines), attach_table(log, scores)]
        for what, here, name, text, number in after:
            act(log if here else other, what, name, text, number)
        for table in kept:
            table.catch_up()
        found = {name: plain_sql(path, query) for name, query in QUERIES.items()}
        for table in kept:
            table.rebuild()

        conversations = [(name, list(log[name].entries())) for name in log]
        expected = {
            "lines": sorted(row for conversation in conversations for row in line_rows(*conversation)),
            "scores": sorted(row for conversation in conversations for row in score_rows(*conversation)),
        }
        assert expected == found
        assert found == {name: plain_sql(path, query) for name, query in QUERIES.items()}


def test_a_row_of_an_edited_entry_is_gone_in_a_table_with_a_key_too_and_what_it_hid_is_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "talks.db"
    log = stenolog.open(path)
    attach_table(log, scores)
    log["demo"].append(AssistantMessage(agent="writer", text="ann x"))
    log["demo"].append(AssistantMessage(agent="writer", text="ann xx"))
    log["demo"].append(AssistantMessage(agent="writer", text="bob xxx", replaces=3))
    log["demo"].append(AssistantMessage(agent="writer", text="cat", replaces=4))

    assert plain_sql(path, "SELECT mail, score FROM scores ORDER BY mail") == [("ann", 1.0), ("cat", 0.0)]
    log.close()


# The table of messages: who said what, and nothing that there is nothing to read of.


CALL = ToolCall(id="c1", name="list", arguments='{"in": "."}')


def rows(
    log: Log, *events: UserMessage | AssistantMessage | ToolResult | ModeSwitch
) -> list[tuple[object, ...]]:
    for event in events:
        log["shop"].append(event)
    kept = attach_table(log, conversation_messages)
    return kept.select("SELECT role, content, agent FROM conversation_messages ORDER BY createdAt")


def test_the_agent_is_whoever_said_it_by_the_entry_alone(log: Log) -> None:
    found = rows(
        log,
        ModeSwitch(joins=["baker"], cards={"baker": AgentCard(persona="You bake.")}),
        UserMessage(text="Which files?", author="Ada"),
        AssistantMessage(agent="baker", task="files", parts=[TextPart(text="I look."), CALL]),
        ToolResult(call_id="c1", name="list", text="oven.py"),
        ToolResult(call_id="c1", text="oven.py"),
    )

    assert found == [
        ("system", "You bake.", "baker"),
        ("user", "Which files?", "Ada"),
        ("assistant", 'I look.\n→ list({"in": "."})', "baker/files"),
        ("tool", "oven.py", "list"),
        ("tool", "oven.py", None),
    ]


def test_a_call_without_words_is_a_line_and_what_says_nothing_is_no_row(log: Log) -> None:
    found = rows(
        log,
        AssistantMessage(agent="baker", parts=[TextPart(text=""), CALL]),
        AssistantMessage(agent="baker", parts=[ReasoningPart(text="Hm.")]),
        UserMessage(parts=[], in_context=False),
        UserMessage(text="for the screen", in_context=False),
    )

    assert found == [
        ("assistant", '→ list({"in": "."})', "baker"),
        ("user", "for the screen", None),
    ]


# Entries and rows are committed together, whenever the program that writes them dies.


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_writer_killed_at_any_instant_leaves_exactly_the_rows_of_its_entries(path: Path) -> None:
    chance, before = Random(1), 0
    for _ in range(4):
        command = [sys.executable, "-m", "tests.tables.write", str(path)]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        give_up = time.monotonic() + 60
        while _rows(path) <= before and time.monotonic() < give_up:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        assert process.poll() is None
        process.kill()
        process.wait()

        with stenolog.open(path) as log:  # which keeps no table: nothing is caught up
            said = [
                (name, entry.position, line)
                for name in log
                for entry in log[name].entries()
                if isinstance(entry.event, UserMessage)
                for line in entry.event.text.splitlines()
            ]
        assert sorted(said) == plain_sql(path, "SELECT talk, at, line FROM lines ORDER BY talk, at, line")
        assert len(said) > before
        before = len(said)


def _rows(path: Path) -> int:
    """Return the number of rows; none while there is no table."""
    if not path.exists() or not plain_sql(path, "SELECT 1 FROM sqlite_master WHERE name = 'lines'"):
        return 0
    return int(plain_sql(path, "SELECT count(*) FROM lines")[0][0])

"""Who may read an output: whoever may see the entry that it is of, and nobody else, by any tool."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    ModeSwitch,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.tools.recall import RecallScope
from stenolog.context import FullHistory, Transforms, register_transform
from stenolog.errors import CallerError, InvalidEventError, StoreError
from stenolog.plugins import TRANSFORMS
from stenolog.tools import read_output, store_large
from tests.outputs.given import PLAN, RESULTS, artifact
from tests.random_cases import seeds

AGENTS = ("ann", "bob", "cleo")


def told(conversation: Conversation, agent: str, alias: str) -> ToolResult:
    call = ToolCall(id="r", name="read_output", arguments=json.dumps({"path": alias, "limit": 20_000}))
    return read_output(conversation, call, agent)


def test_an_output_that_is_for_one_agent_is_nothing_to_another() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(mode="chat", scope="addressed", joins=["ann", "bob"]))
        talk.append(UserMessage("ann, look", to=["ann"]))
        talk.append(AssistantMessage(agent="ann", tool_calls=[ToolCall(id="k", name="shell")], to=["ann"]))
        talk.append(store_large(log, ToolResult(call_id="k", text="HUNTER2 " * 5_000)))
        (alias,) = talk.outputs

        refused = told(talk, "bob", alias)
        assert (refused.is_error, refused.text) == (True, f"'talk': no entry has the alias {alias}")
        assert told(talk, "ann", alias).text.startswith("HUNTER2")


@pytest.fixture
def no_hunter() -> Iterator[str]:
    """Register a transform for one test and yield its name."""

    def transform(message: Any, entry: Entry) -> Any:
        if "HUNTER2" not in repr(message):
            return message
        is_result = isinstance(entry.event, ToolResult)
        return message._replace(parts=(TextPart(text="*"),)) if is_result else None

    with TRANSFORMS.restored():
        register_transform("no-hunter@1", "a word is left out, and results are reworded")(transform)
        yield "no-hunter@1"


def test_what_a_transform_keeps_from_an_agent_no_tool_gives_it(no_hunter: str) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("bob", policy=Transforms([no_hunter]))
        talk.append(
            AssistantMessage(agent="ann", text="It is HUNTER2", tool_calls=[ToolCall(id="k", name="sh")])
        )
        talk.append(store_large(log, ToolResult(call_id="k", text="HUNTER2 " * 5_000)))
        (alias,) = talk.outputs

        assert told(talk, "bob", alias).is_error
        assert not RecallScope().passages(talk, "bob", "HUNTER2", 5)
        assert told(talk, "ann", alias).text.startswith("HUNTER2")


def random_talk(conversation: Conversation, random: Random) -> list[str]:
    """Write a talk in which each entry has a word of its own; return the words."""
    scope: Literal["open", "addressed"] = random.choice(("open", "addressed"))
    conversation.append(ModeSwitch(mode="chat", scope=scope, joins=[*AGENTS]))
    words = []
    for nth in range(random.randrange(3, 12)):
        to = random.sample(AGENTS, random.choice((0, 1, 2)))
        agent = random.choice(to or AGENTS)
        words += [f"question{nth}x", f"result{nth}x", f"answer{nth}x"]
        conversation.append(UserMessage(words[-3], to=to))
        task = random.choice(("", "", "job"))
        call = ToolCall(id=f"k{nth}", name="look")
        conversation.append(AssistantMessage(agent=agent, tool_calls=[call], to=to, task=task))
        conversation.append(ToolResult(call_id=f"k{nth}", text=words[-2]))
        conversation.append(AssistantMessage(agent=agent, text=words[-1], to=to, task=task))
        if random.random() < 0.2:
            with suppress(InvalidEventError):
                conversation.erase(random.randrange(2, conversation.position), reason="x", by="me")
        if random.random() < 0.1:
            switch = ModeSwitch(scope="open" if scope == "addressed" else "addressed")
            conversation.append(switch, expected=conversation.position)
    return words


@seeds(15, slow=150, nightly=1_000)
def test_no_tool_returns_what_the_request_of_its_agent_would_not_hold(seeds: range) -> None:
    read = 0
    with stenolog.open(":memory:") as log:
        for nth in seeds:
            random = Random(nth)
            talk = log[f"talk{nth}"]
            words = random_talk(talk, random)
            for agent in AGENTS:
                for address in (agent, f"{agent}/job"):
                    task = address.partition("/")[2]
                    held = json.dumps(talk.request(agent, task=task, policy=FullHistory()).body)
                    for alias in talk.outputs:
                        result = told(talk, address, alias)
                        read += not result.is_error
                        assert result.is_error or result.text.partition("\n")[0] in held
                    if not task:
                        for passage in RecallScope().passages(talk, agent, " OR ".join(words), 100):
                            assert passage.text in held
    assert read > len(seeds) * 3


# Outputs as read-only files under the root of a workspace.


def test_outputs_become_read_only_files_under_their_aliases(
    conversation: Conversation, tmp_path: Path
) -> None:
    root = tmp_path / "new" / "workspace"
    written = conversation.outputs.write_files(root)

    assert written == list(conversation.outputs)
    assert {path: (root / path).read_text() for path in written} == dict(conversation.outputs)
    assert {stat.S_IMODE((root / path).stat().st_mode) for path in written} == {0o400}
    assert sorted(p for p in root.rglob("*") if p.is_file()) == sorted(root / path for path in written)


def test_what_is_there_already_is_not_written_again(conversation: Conversation, tmp_path: Path) -> None:
    conversation.outputs.write_files(tmp_path)
    conversation.append(ToolResult(call_id="c4", text="new"), id="new")

    assert conversation.outputs.write_files(tmp_path) == [f"{RESULTS}/new.json"]
    assert conversation.outputs.write_files(tmp_path) == []


def test_a_new_version_of_an_artifact_takes_the_place_of_the_one_before(
    conversation: Conversation, tmp_path: Path
) -> None:
    conversation.outputs.write_files(tmp_path)
    conversation.append(UserMessage(parts=[artifact(conversation.log, "# A better plan")]))

    assert conversation.outputs.write_files(tmp_path) == [PLAN]
    assert (tmp_path / PLAN).read_text() == "# A better plan"


@pytest.mark.parametrize("path", [f"{RESULTS}/small.json", PLAN])
def test_a_file_that_was_not_made_here_is_never_overwritten(
    conversation: Conversation, tmp_path: Path, path: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("mine")

    with pytest.raises(CallerError, match="what stands there is kept"):
        conversation.outputs.write_files(tmp_path)
    assert (tmp_path / path).read_text() == "mine"


def test_an_artifact_that_somebody_changed_is_kept(conversation: Conversation, tmp_path: Path) -> None:
    conversation.outputs.write_files(tmp_path)
    (tmp_path / PLAN).unlink()
    (tmp_path / PLAN).write_text("# The plan, with my notes")
    conversation.append(UserMessage(parts=[artifact(conversation.log, "# A better plan")]))

    with pytest.raises(CallerError, match="what stands there is kept"):
        conversation.outputs.write_files(tmp_path)
    assert (tmp_path / PLAN).read_text() == "# The plan, with my notes"


@pytest.mark.parametrize("link", ["@state", "@state/logs", RESULTS, "@project", "@project/artifacts/docs"])
def test_no_link_leads_out_of_the_root(conversation: Conversation, tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside, target_is_directory=True)

    with pytest.raises(CallerError, match="found a link, or something else"):
        conversation.outputs.write_files(root)
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_neither_followed_nor_replaced(
    conversation: Conversation, tmp_path: Path
) -> None:
    path, target = tmp_path / "root" / RESULTS / "small.json", tmp_path / "target"
    path.parent.mkdir(parents=True)
    target.write_text("a\nb")
    path.symlink_to(target)

    with pytest.raises(CallerError, match="found a link, or something else"):
        conversation.outputs.write_files(tmp_path / "root")
    assert path.is_symlink()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_left_alone(conversation: Conversation, tmp_path: Path, make: Any) -> None:
    path = tmp_path / RESULTS / "small.json"
    path.parent.mkdir(parents=True)
    make(path)

    with pytest.raises(CallerError, match="expected"):
        conversation.outputs.write_files(tmp_path)
    assert not path.is_file()


def test_the_root_itself_may_be_a_link(conversation: Conversation, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")

    conversation.outputs.write_files(tmp_path / "root")

    assert (tmp_path / "real" / PLAN).read_text() == "# The plan"


def test_a_write_that_fails_leaves_no_part_of_a_file(
    conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)

    with pytest.raises(StoreError, match=r"small\.json: No space left on device"):
        conversation.outputs.write_files(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_somebody_who_was_first_meanwhile_keeps_the_file(
    conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(part: str, name: str, **where: Any) -> None:
        (tmp_path / RESULTS / name).write_text("theirs")
        link(part, name, **where)

    monkeypatch.setattr(os, "link", late)

    with pytest.raises(CallerError, match="what stands there is kept"):
        conversation.outputs.write_files(tmp_path)
    assert (tmp_path / RESULTS / "small.json").read_text() == "theirs"

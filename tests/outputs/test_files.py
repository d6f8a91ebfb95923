"""Outputs as read-only files under the root of a workspace."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from stenolog import Conversation, ToolResult, UserMessage
from stenolog.errors import CallerError, StoreError
from tests.outputs.given import PLAN, RESULTS, artifact


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

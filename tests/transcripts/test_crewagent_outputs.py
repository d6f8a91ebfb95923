"""Whole outputs that CrewAgent keeps as files under `@state`, and system messages that people were shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, ToolResult, UserMessage
from stenolog.context import Policy
from stenolog.contrib.crewagent import export_crewagent
from stenolog.errors import CallerError
from stenolog.importers import import_file
from stenolog.parts import ToolCall
from stenolog.tools import read_output, store_large
from tests.transcripts.crewagent_given import Message, call, folder, imported, message, read
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound

ALIAS = "@state/logs/tool-results/call_7.json"
PREVIEW = f"TOOL_RESULT_PREVIEW 0 passed …\nFull output: {ALIAS}"
MISSING = "missing: files of whole outputs (link @state beside the folder, and import into a new log)"
WHOLE = json.dumps({"output": "passed\n" * 9_000})


def talk(preview: str = PREVIEW) -> list[Message]:
    """Return a conversation in which a tool gave back more than a message has."""
    return [
        message("m1", "user", "Run the tests."),
        message("m2", "assistant", None, "tool_call", tool_calls=[call("call_7", "run_tests", "{}")]),
        message("m3", "tool", preview, "tool_result", tool_call_id="call_7", toolName="run_tests"),
        message("m4", "assistant", "All pass."),
    ]


def stored(place: Path, alias: str = ALIAS, whole: str = WHOLE) -> Path:
    """Write the file that the app has made for a whole output."""
    path = place / alias
    path.parent.mkdir(parents=True)
    path.write_text(whole)
    return path


@pytest.mark.parametrize("beside", [".", "conversations", "conversations/talk"])
def test_the_file_of_a_whole_output_comes_in_and_is_read_by_the_path_that_the_preview_names(
    into: Import, tmp_path: Path, beside: str
) -> None:
    made = folder(tmp_path, talk=talk())
    stored(tmp_path / beside)
    imported(into.log, made)

    conversation = into.log["talk"]
    assert conversation.outputs[ALIAS] == WHOLE
    asked = ToolCall(id="c9", name="read_output", arguments=json.dumps({"path": ALIAS, "limit": 20}))
    assert read_output(conversation, asked, "assistant").text.startswith(WHOLE[:20])
    [shown] = [said for said in conversation.request("assistant").body["messages"] if said["role"] == "tool"]
    assert shown["content"].startswith(PREVIEW), "a model is sent the preview that it was sent before"
    assert_sound(into.log)


def test_a_path_at_the_end_of_a_preview_may_have_any_name(into: Import, tmp_path: Path) -> None:
    alias = "@project/artifacts/build.log"
    made = folder(tmp_path, talk=talk(f"line 1\nFull output: {alias}\n"))
    stored(tmp_path, alias, "line 1\nline 2")
    imported(into.log, made)

    assert into.log["talk"].outputs[alias] == "line 1\nline 2"


def test_words_that_only_mention_a_file_are_no_preview_of_it(into: Import, tmp_path: Path) -> None:
    made = folder(
        tmp_path, talk=talk("@state/logs/other.json\nFull output: @state/logs/other.json, and more")
    )
    stored(tmp_path, "@state/logs/other.json")
    imported(into.log, made)

    assert "@state/logs/other.json" not in into.log["talk"].outputs
    assert "read_output" not in str(into.log["talk"].request("assistant").body["messages"])


def test_agents_that_read_files_find_the_whole_output_where_the_old_preview_says(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, talk=talk())
    stored(tmp_path)
    imported(into.log, made)

    into.log["talk"].outputs.write_files(tmp_path / "workspace")
    assert (tmp_path / "workspace" / ALIAS).read_text() == WHOLE


@pytest.mark.parametrize("alias", ["@state/../secret", "/secret", "@state/", "secret", "@state//x"])
def test_an_alias_that_leads_elsewhere_is_none(into: Import, tmp_path: Path, alias: str) -> None:
    conversation = into.log["talk"]
    conversation.append(ToolResult(call_id="c1", text="x", meta={"stenolog": {"alias": alias}}))

    assert len(conversation.outputs.write_files(tmp_path / "workspace")) == 1
    assert alias not in conversation.outputs


@pytest.mark.parametrize("path", ["@state/../secret.json", "@state/link/secret.json"])
def test_no_path_leads_out_of_the_folder_of_the_state(into: Import, tmp_path: Path, path: str) -> None:
    made = folder(tmp_path, talk=talk(f"Full output: {path}"))
    (tmp_path / "@state").mkdir()
    (tmp_path / "@state" / "link").symlink_to(tmp_path)
    (tmp_path / "secret.json").write_text("secret")
    report = import_file(into.log, made)

    assert report.conversations[0].ignored == {MISSING: 1}
    assert "secret" not in [*into.log["talk"].outputs.values()]


def test_the_state_may_be_a_link_to_where_the_app_keeps_it(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path / "project", talk=talk())
    stored(tmp_path)
    (tmp_path / "project" / "@state").symlink_to(tmp_path / "@state")
    imported(into.log, made)

    assert into.log["talk"].outputs[ALIAS] == WHOLE


@pytest.mark.parametrize("alias", [ALIAS, "@project/artifacts/build.log"])
def test_a_whole_output_goes_back_beside_the_messages_which_come_out_as_they_were(
    into: Import, tmp_path: Path, alias: str
) -> None:
    said = talk(f"passed\nFull output: {alias}")
    made = folder(tmp_path, talk=said)
    stored(tmp_path, alias)
    imported(into.log, made)
    export_crewagent(into.log["talk"], there := tmp_path / "there" / "conversations")

    assert read(there) == said
    assert (there / alias).read_text() == WHOLE
    assert import_file(into.log, there).conversations[0].appended == 0
    with stenolog.open(":memory:") as other:
        imported(other, there)
        assert other["talk"].outputs[alias] == WHOLE
        assert other["talk"].request("assistant").sha256 == into.log["talk"].request("assistant").sha256


def test_another_file_in_the_place_of_a_whole_output_stays_and_the_output_is_kept_in_its_message(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, talk=talk())
    file = stored(tmp_path)
    imported(into.log, made)
    file.write_text("newer")
    export_crewagent(into.log["talk"], made)

    assert file.read_text() == "newer"
    with stenolog.open(":memory:") as other:
        imported(other, made)
        assert other["talk"].request("assistant").sha256 == into.log["talk"].request("assistant").sha256


def test_an_output_has_one_path_that_of_its_preview_and_a_request_sent_before_has_both(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, talk=talk())
    stored(tmp_path)
    imported(into.log, made)
    conversation = into.log["talk"]
    chosen = Policy()

    def paths(of: Policy) -> set[str]:
        return set(re.findall(r"@state[\w/-]*\.json", str(conversation.request("assistant", policy=of).body)))

    assert list(conversation.outputs) == [ALIAS]
    assert paths(chosen) == {ALIAS}
    assert paths(replace(chosen, pipeline="requests@5")) == {ALIAS, "@state/logs/tool-results/m3.json"}
    assert conversation.outputs["@state/logs/tool-results/m3.json"] == WHOLE


def went_on(into: Import) -> Conversation:
    """Return a conversation that was begun here, with a large output."""
    conversation = into.log["talk"]
    conversation.append(UserMessage(text="Run the tests."))
    called = ToolCall(id="c1", name="run_tests", arguments="{}")
    conversation.append(AssistantMessage(agent="assistant", tool_calls=[called]))
    conversation.append(store_large(into.log, ToolResult(call_id="c1", text=WHOLE)), id="r1")
    return conversation


def test_a_large_output_is_written_where_the_app_keeps_its_state_and_comes_back_from_there(
    into: Import, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "project" / "@state").symlink_to(tmp_path / "app")
    here = went_on(into)
    export_crewagent(here, tmp_path / "project" / "conversations")

    assert (tmp_path / "app" / "logs" / "tool-results" / "r1.json").read_text() == WHOLE
    [result] = [each for each in read(tmp_path / "project" / "conversations") if each["role"] == "tool"]
    assert result["content"].endswith("\nFull output: @state/logs/tool-results/r1.json")
    assert len(json.dumps(result)) < 8_000
    with stenolog.open(":memory:") as other:
        imported(other, tmp_path / "project")
        assert dict(other["talk"].outputs) == dict(here.outputs)
        assert other["talk"].request("assistant").sha256 == here.request("assistant").sha256


def test_no_output_is_written_through_a_link_that_leads_out_of_the_state(
    into: Import, tmp_path: Path
) -> None:
    (tmp_path / "conversations" / "@state").mkdir(parents=True)
    (tmp_path / "conversations" / "@state" / "logs").symlink_to(tmp_path)
    with pytest.raises(CallerError, match="found a link that leads elsewhere"):
        export_crewagent(went_on(into), tmp_path / "conversations")
    assert not (tmp_path / "tool-results").exists()
    assert not (tmp_path / "conversations" / "talk").exists()


@pytest.mark.parametrize(
    "messages",
    [
        [message("m1", "user", "Hello"), message("m2", "system", "Run finished")],
        [message("m2", "system", "Run finished", "status"), message("m1", "user", "Hello")],
    ],
)
def test_a_system_message_that_people_were_shown_is_no_persona(
    into: Import, tmp_path: Path, messages: list[Any]
) -> None:
    imported(into.log, folder(tmp_path, talk=messages))

    conversation = into.log["talk"]
    assert conversation.settings().card_of("assistant").persona == ""
    said = [entry.event for entry in conversation.entries() if isinstance(entry.event, UserMessage)]
    assert ("Run finished", "system") in [(event.text, event.author_kind) for event in said]

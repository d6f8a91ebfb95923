"""Whole outputs of CrewAgent, and the places of its files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, ModeSwitch, ToolResult, UserMessage
from stenolog.context import Policy
from stenolog.contrib.crewagent import export_crewagent
from stenolog.errors import CallerError
from stenolog.importers import import_file
from stenolog.parts import ToolCall
from stenolog.tools import read_output, store_large
from tests.transcripts.crewagent_given import Message, call, folder, imported, message, read
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound
from tests.transcripts.test_crewagent import A_TURN

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
    conversation.outputs.write_files(tmp_path / "workspace")
    assert (tmp_path / "workspace" / ALIAS).read_text() == WHOLE, "an agent that reads files finds it there"
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


OLD: list[Message] = [{"role": "user", "content": f"w{nth}", "runId": ""} for nth in range(3)]


def ids(made: Path) -> list[str]:
    """Return the ids that the index lists."""
    return [entry["id"] for entry in json.loads((made / "index.json").read_text())["conversations"]]


def exported(conversation: Conversation, made: Path) -> str:
    """Return the folder that an export has written into."""
    return export_crewagent(conversation, made).parent.name


def test_a_fork_stands_beside_its_parent(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, notes=A_TURN)
    imported(into.log, made)
    fork = into.log["notes"].fork(after=3, name="what-if")
    fork.append(UserMessage(text="What if?"), expected=fork.position)

    assert exported(fork, made) == "what-if"
    assert (read(made, "notes"), ids(made)) == (A_TURN, ["notes", "what-if"])


def test_a_fork_that_was_exported_is_known_again(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, notes=A_TURN)
    imported(into.log, made)
    export_crewagent(into.log["notes"].fork(after=3, name="what-if"), made)

    assert [conversation.appended for conversation in imported(into.log, made).conversations] == [0, 0]


def test_a_second_import_of_a_conversation_stands_beside_the_first(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, notes=A_TURN)
    for name in ("mine", "second"):
        imported(into.log, made, name=name)

    assert [exported(into.log[name], tmp_path / "out") for name in ("mine", "second")] == ["mine", "second"]


def test_a_conversation_imported_under_another_name_goes_back_to_its_place(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, notes=A_TURN)
    imported(into.log, made, name="mine")

    assert exported(into.log["mine"], made) == "notes"


def test_a_conversation_begun_here_keeps_the_place_of_its_name(into: Import, tmp_path: Path) -> None:
    imported(into.log, folder(tmp_path, notes=A_TURN), name="mine")
    into.log["notes"].append(UserMessage(text="Begun here"))

    assert [exported(into.log[name], tmp_path / "out") for name in ("mine", "notes")] == ["mine", "notes"]


def test_another_conversation_of_that_name_is_not_written_over(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path, notes=A_TURN)
    into.log["notes"].append(UserMessage(text="Begun here"))

    with pytest.raises(CallerError, match="found those of another"):
        export_crewagent(into.log["notes"], made)

    assert read(made, "notes") == A_TURN


@pytest.mark.parametrize(
    "name", ["index.json", "Index.json", "index.json.part", ".index.json.part", "..", "a/b"]
)
def test_no_name_of_a_conversation_spoils_the_folder(into: Import, tmp_path: Path, name: str) -> None:
    for each in (name, "talk"):
        into.log[each].append(UserMessage(text="Hi"))
        export_crewagent(into.log[each], tmp_path)

    assert len({path.casefold() for path in ids(tmp_path)}) == 2
    assert [conversation.appended for conversation in imported(into.log, tmp_path).conversations][1:] == [0]


def test_a_message_without_the_field_is_out_of_context_after_a_reset(into: Import, tmp_path: Path) -> None:
    imported(into.log, folder(tmp_path, talk=OLD))
    conversation = into.log["talk"]
    conversation.append(ModeSwitch(context_from=4), expected=conversation.position)

    export_crewagent(conversation, tmp_path / "out")

    told = [each.get("includeInContext") for each in read(tmp_path / "out")]
    assert told == [False, False, None, False]


def test_the_other_spelling_is_kept_for_what_a_reset_takes_out(into: Import, tmp_path: Path) -> None:
    old = {"role": "user", "content": "Hi", "include_in_context": True, "runId": ""}
    imported(into.log, folder(tmp_path / "old", old=[old]))
    into.log["old"].append(ModeSwitch(context_from=3), expected=2)

    export_crewagent(into.log["old"], tmp_path / "out")

    first = read(tmp_path / "out", "old")[0]
    assert (first["include_in_context"], "includeInContext" in first) == (False, False)


def test_a_link_leads_no_export_out_of_the_folder(into: Import, tmp_path: Path) -> None:
    into.log["talk"].append(UserMessage(text="Hi"))
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "talk").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CallerError, match="found a link"):
        export_crewagent(into.log["talk"], tmp_path / "out")

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_link_is_written_through(into: Import, tmp_path: Path) -> None:
    into.log["talk"].append(UserMessage(text="Hi"))
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    out = tmp_path / "out"
    (out / "talk").mkdir(parents=True)
    for name in (".index.json.part", "index.json.part", "talk/messages.json", "talk/.messages.json.part"):
        (out / name).symlink_to(precious)

    export_crewagent(into.log["talk"], out)

    assert (precious.read_text(), ids(out), len(read(out))) == ("precious", ["talk"], 2)
    assert [path.name for path in out.glob("**/.*")] == []


EXPORTS = """
import sys
from pathlib import Path
import stenolog
from stenolog.contrib.crewagent import export_crewagent

with stenolog.open(sys.argv[1]) as log:
    for name in log:
        export_crewagent(log[name], Path(sys.argv[2]))
"""


def test_processes_that_export_at_once_lose_nothing(tmp_path: Path) -> None:
    for one in "ab":
        with stenolog.open(tmp_path / f"{one}.db") as log:
            for nth in range(20):
                log[f"{one}{nth}"].append(UserMessage(text="Hi"))

    command = [sys.executable, "-c", EXPORTS]
    working = [subprocess.Popen([*command, tmp_path / f"{one}.db", tmp_path / "out"]) for one in "ab"]

    assert [each.wait(timeout=60) for each in working] == [0, 0]
    assert sorted(ids(tmp_path / "out")) == sorted(f"{one}{nth}" for one in "ab" for nth in range(20))

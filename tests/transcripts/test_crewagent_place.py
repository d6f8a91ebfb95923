"""A conversation's place in CrewAgent's folder: it takes nobody else's, whoever writes there meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stenolog
from stenolog import Conversation, ModeSwitch, UserMessage
from stenolog.contrib.crewagent import export_crewagent
from stenolog.errors import CallerError
from stenolog.importers import import_file
from tests.transcripts.crewagent_given import Message, folder, imported, index, read
from tests.transcripts.given import Import
from tests.transcripts.test_crewagent import A_TURN

OLD: list[Message] = [{"role": "user", "content": f"w{nth}", "runId": ""} for nth in range(3)]


def ids(made: Path) -> list[str]:
    """Return the ids that the index lists."""
    return [entry["id"] for entry in json.loads((made / "index.json").read_text())["conversations"]]


def exported(conversation: Conversation, made: Path) -> str:
    """Return the folder that an export has written into."""
    return export_crewagent(conversation, made).parent.name


# Whose place it is


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


def test_an_id_that_would_spoil_the_folder_is_told(into: Import, tmp_path: Path) -> None:
    index(tmp_path, [{"id": "index.json"}])

    skipped = import_file(into.log, tmp_path).skipped

    assert "an id that names a folder" in skipped[0].reason


# What is written there


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


# Others who write


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

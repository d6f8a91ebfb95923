"""Out of CrewAgent's folder and into it again: nothing is lost on either way, whatever stands there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Event,
    LlmError,
    Log,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.contrib.crewagent import folder as folder_module
from stenolog.contrib.crewagent.export import export_crewagent
from stenolog.errors import BlobNotFoundError, CallerError, UnsupportedVersionError
from stenolog.events import Origin, PositionRange, Unknown, WorkflowRun
from stenolog.parts import FilePart, ImagePart
from stenolog.tools import store_large
from tests.requests.judging import refused
from tests.transcripts.crewagent_given import (
    Message,
    folder,
    imported,
    index,
    keep,
    message,
    read,
    there_and_back,
    told,
)
from tests.transcripts.given import Import
from tests.transcripts.test_crewagent import A_TURN, OLD_TURN, TALK

PICTURE = "data:image/png;base64,aGVsbG8="
WIDE = [
    message("m0", "system", "You are the architect."),
    *A_TURN,
    message("m5", "assistant", None, "widget", widget={"type": "chart", "data": [1, 1.0, True, None]}),
    message("m6", "assistant", "It im", "llm_error", error={"category": "timeout", "message": "60 s"}),
    message(
        "m7", "user", [{"type": "image_url", "image_url": {"url": PICTURE}}, {"type": "text", "text": "?"}]
    ),
    message("m8", "system", "mode: run", "mode_switch", mode="run", includeInContext=False, runId="r1"),
    message("m9", "assistant", "Sorry.", refusal="No.", reasoning_content="Hm.", mode="run"),
    message("m10", "tool", "line\n" * 9_000, "tool_result", tool_call_id="c9", isError=True, mode="run"),
]


# The old app's files, through the log


@pytest.mark.parametrize("messages", [A_TURN, OLD_TURN, TALK, WIDE])
def test_messages_that_are_imported_and_exported_are_the_same_json(
    into: Import, tmp_path: Path, messages: list[Message]
) -> None:
    assert there_and_back(into.log, tmp_path, messages) == messages


def test_the_index_comes_back_with_what_nobody_knows(into: Import, tmp_path: Path) -> None:
    made = folder(tmp_path / "in", talk=A_TURN)
    entry = {"id": "talk", "title": "Talk", "createdAt": 1767323045678, "color": "red"}
    index(made, [entry])
    imported(into.log, made)

    export_crewagent(into.log["talk"], tmp_path / "out")

    assert json.loads((tmp_path / "out" / "index.json").read_text()) == {"conversations": [entry]}


# A log, through the old app's files


def a_run(log: Log) -> list[Event]:
    """Return a conversation with what only stenolog knows: a run, a summary, an artifact, a large output."""
    log.blobs.put(b"# The plan")
    plan = FilePart(
        name="@project/artifacts/plan.md", media_type="text/markdown", blob=log.blobs.put(b"# The plan")
    )
    picture = ImagePart(blob=log.blobs.put(b"hello"))
    run = WorkflowRun(id="r1", directive="Ship it.", node="n1", brief="The tests.", context="Step 1 of 2.")
    card = AgentCard(model="gpt-5.2", persona="You are the architect.", policy={"budget": {"tokens": 9_000}})
    large = ToolResult(call_id="c1", name="read", text="line\n" * 20_000, run="r1")
    return [
        ModeSwitch(mode="chat", title="A run", joins=["crew"], cards={"crew": card}),
        UserMessage(text="Look", author="ada"),
        UserMessage(parts=[plan, picture], author_kind="system", in_context=False),
        AssistantMessage(agent="crew", text="I look.", tool_calls=[ToolCall(id="c1", name="read")], cause=2),
        store_large(log, large),
        ModeSwitch(mode="run", active_run=run),
        LlmError(agent="crew", category="timeout", text="It im", tool_calls=[ToolCall(id="c2", name="read")]),
        AssistantMessage(
            agent="crew", purpose="summary", text="Looked.", covers=[PositionRange(first=2, last=5)]
        ),
        UserMessage(text="continue", meta={"crewagent": {"id": "w1", "widget": {"type": "button"}}}),
    ]


def test_runs_summaries_pictures_and_large_outputs_survive_the_old_app(into: Import, tmp_path: Path) -> None:
    into.log["a run"].extend(a_run(into.log))
    export_crewagent(into.log["a run"], tmp_path)

    with stenolog.open(":memory:") as other:
        imported(other, tmp_path)

        assert told(other["a run"]) == told(into.log["a run"])
        assert dict(other["a run"].outputs) == dict(into.log["a run"].outputs)
        assert other["a run"].request("crew").bytes == into.log["a run"].request("crew").bytes


def test_the_old_app_finds_the_fields_that_it_knows_and_the_same_context(
    into: Import, tmp_path: Path
) -> None:
    into.log["a run"].extend(a_run(into.log))
    export_crewagent(into.log["a run"], tmp_path)

    found = read(tmp_path, "a run")
    kinds = [(m["role"], m["partType"], m["mode"], m["includeInContext"]) for m in found]
    assert kinds == [
        ("system", "mode_switch", "chat", False),
        ("user", "text", "chat", False),  # a summary replaces it
        ("user", "text", "chat", False),
        ("assistant", "tool_call", "chat", False),
        ("tool", "tool_result", "chat", False),
        ("system", "mode_switch", "run", False),
        ("assistant", "llm_error", "run", True),
        ("assistant", "summary", "run", True),
        ("user", "text", "run", True),
    ]
    preview, _, path = found[4]["content"].rpartition("\nFull output: ")
    assert (tmp_path / path).read_text() == "line\n" * 20_000, "the app's tools read it there"
    assert len(preview) < 2_000, "and no request has all of it"
    assert found[6]["content"] == "It im\n\nLLM_ERROR\n- type: timeout"
    assert (found[8]["id"], found[8]["widget"]) == ("w1", {"type": "button"})
    assert json.loads((tmp_path / "index.json").read_text())["conversations"][0]["title"] == "A run"


def test_what_the_old_app_would_send_keeps_the_protocol(into: Import, tmp_path: Path) -> None:
    into.log["talk"].extend(
        [event for event in a_run(into.log) if getattr(event, "purpose", "") != "summary"]
    )
    export_crewagent(into.log["talk"], tmp_path)

    sent = [m for m in read(tmp_path) if m["includeInContext"]]
    protocol = ("role", "content", "tool_calls", "tool_call_id")
    body = {"model": "m", "messages": [{name: m[name] for name in protocol if name in m} for m in sent]}
    assert refused("openai-chat", body) == []


def test_the_old_app_goes_on_and_the_log_takes_up_what_it_said(into: Import, tmp_path: Path) -> None:
    into.log["talk"].extend(a_run(into.log))
    export_crewagent(into.log["talk"], tmp_path)
    more = [message("n1", "user", "And now?", mode="run"), message("n2", "assistant", "Done.", mode="run")]
    keep(tmp_path, "talk", read(tmp_path) + more)

    found = imported(into.log, tmp_path).conversations[0]

    assert (found.appended, found.already) == (2, 9)
    answer = list(into.log["talk"].entries())[-1].event
    assert isinstance(answer, AssistantMessage)
    assert (answer.agent, answer.text) == ("crew", "Done.")


def test_what_the_old_app_takes_out_of_context_is_out_of_it(into: Import, tmp_path: Path) -> None:
    into.log["talk"].extend([ModeSwitch(joins=["crew"]), UserMessage(text="Hi", author="ada", tags=["goal"])])
    export_crewagent(into.log["talk"], tmp_path)
    first, said = read(tmp_path)
    keep(tmp_path, "talk", [first, {**said, "includeInContext": False}])

    with stenolog.open(":memory:") as other:
        imported(other, tmp_path)

        assert list(other["talk"].entries())[1].event == UserMessage(
            text="Hi", author="ada", tags=["goal"], in_context=False
        )


# The folder


def test_a_conversation_takes_its_place_in_a_folder_and_leaves_the_others_alone(
    into: Import, tmp_path: Path
) -> None:
    made = folder(tmp_path, a=A_TURN, talk=A_TURN, z=A_TURN)
    index(made, [{"id": "a", "odd": 1}, {"id": "talk", "title": "Old"}, {"id": "z"}])
    imported(into.log, made)
    into.log["talk"].append(ModeSwitch(title="New"), expected=into.log["talk"].position)
    into.log["new/one"].append(UserMessage(text="Hi"))

    for name in ("talk", "new/one"):
        export_crewagent(into.log[name], made)

    entries = json.loads((made / "index.json").read_text())
    assert [(entry["id"], entry.get("title")) for entry in entries] == [
        ("a", None),
        ("talk", "New"),
        ("z", None),
        ("new%2Fone", ""),
    ]
    assert (read(made, "a"), len(read(made))) == (A_TURN, 5)
    assert [path.name for path in made.rglob("*.part")] == []


def test_nothing_is_written_where_anything_of_it_cannot_be(into: Import, tmp_path: Path) -> None:
    lost = UserMessage(parts=[ImagePart(blob="0" * 64)])
    into.log["talk"].append(lost)

    with pytest.raises(BlobNotFoundError):
        export_crewagent(into.log["talk"], tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_disk_that_fails_leaves_what_was_there(
    into: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = folder(tmp_path, talk=A_TURN)
    before = (made / "index.json").read_text()
    imported(into.log, made)
    into.log["talk"].append(UserMessage(text="More"))

    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(folder_module, "_write_new", full)
    with pytest.raises(OSError, match="No space left"):
        export_crewagent(into.log["talk"], made)

    assert ((made / "index.json").read_text(), read(made)) == (before, A_TURN)


@pytest.mark.parametrize("document", ['[{"id":', {"talks": []}], ids=["broken", "something else"])
def test_an_index_that_cannot_be_read_is_not_written_over(
    into: Import, tmp_path: Path, document: object
) -> None:
    index(tmp_path, document)
    into.log["talk"].append(UserMessage(text="Hi"))

    with pytest.raises(CallerError, match=r"index\.json"):
        export_crewagent(into.log["talk"], tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


def test_an_id_in_the_log_never_leads_out_of_the_folder(into: Import, tmp_path: Path) -> None:
    source = Origin(system="crewagent", id="../x", role="settings")
    into.log["..x"].append(ModeSwitch(meta={"crewagent": {"id": "../x"}}, source=source), expected=0)
    into.log["..x"].append(UserMessage(text="Hi"))

    assert export_crewagent(into.log["..x"], tmp_path) == tmp_path / "%2E.x" / "messages.json"


def test_an_event_of_a_later_release_is_refused_by_its_position(into: Import, tmp_path: Path) -> None:
    into.log["talk"].append(Unknown(topic="poll@1", payload=b"{}"))

    with pytest.raises(UnsupportedVersionError, match="position 2: poll@1"):
        export_crewagent(into.log["talk"], tmp_path)


def test_a_conversation_without_entries_is_refused(into: Import, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="found none"):
        export_crewagent(into.log["nothing"], tmp_path)

"""Sessions that other programs resume: what an agent was told comes back from the file, or is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, UserMessage
from stenolog.context import FullHistory
from stenolog.events import Usage
from stenolog.importers import EXPORTERS, AgentSession, SessionFile, import_file
from stenolog.parts import TextPart
from stenolog.projections.moments.session import session_of
from stenolog.projections.requests.choosing import lanes
from stenolog.requests import build
from stenolog.testing import entries
from tests.random_cases import seeds as cases
from tests.requests.corpus import TRANSCRIPTS, Talk, conversations, files
from tests.requests.histories import BLOBS, history

FORMS = {
    "claude-code": ("anthropic", "claude"),
    "codex": ("openai-responses", "codex"),
    "pi": ("anthropic", "pi"),
}
"""The API by which each program's sessions are compared, and the agent that their import has."""
OWN = {"claude-code": ("claude_code", "claude_code_fixtures"), "codex": ("codex",), "pi": ("pi",)}
OTHERS = ("agent_sessions_fixtures", "tau_bench")
NEEDS_TRANSCRIPTS = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not beside this checkout"
)
RESULTS = (
    "a call that its agent waits for",
    "a call that was interrupted before",
    "a call whose result is in the log",
    "a call without a result",
)
FAILURES = ("who cut off the text", "that an answer failed", "the words by which an interruption")
MEDIA = ("a picture or file that is gone", "a picture or file that is larger")
SUMMARIES = ("a summary that other messages precede",)
PERSONS = "words of a person that begin like those of the program"
NO_RESULT = re.compile(r"\[no result.*|No result: the call was interrupted\.|\[the call was interrupted.*")


def compared(value: Any, named: str) -> Any:
    """Return a request's messages without what a session named; calls by their numbers.

    An API rewrites an id that is unfit by its place in the log.
    """
    ids: dict[str, int] = {}

    def at(value: Any) -> Any:
        match value:
            case {"type": "document" | "image" | "input_file" | "input_image"} if any(
                map(named.count, MEDIA)
            ):
                return {"type": "text", "text": "[gone]"}
            case dict():
                return {
                    name: number(name, each, value) for name, each in value.items() if name != "cache_control"
                }
            case list():
                return [each for item in value for each in items(item)]
            case str():
                return words(value)
            case _:
                return value

    def number(name: str, each: Any, of: dict[str, Any]) -> Any:
        is_id = name in ("tool_use_id", "call_id") or (name == "id" and of.get("type") == "tool_use")
        return ids.setdefault(each, len(ids)) if is_id else at(each)

    def items(item: Any) -> Iterator[Any]:
        match item:
            case {"type": "message", "role": "assistant", "content": list(parts)}:
                yield from ({**item, "content": at([part])} for part in parts)
            case {"content": str(said), "tool_use_id": _} | {"output": str(said), "call_id": _}:
                is_named = any(map(named.count, RESULTS)) and NO_RESULT.fullmatch(said.lstrip("\\"))
                yield from () if is_named else (at(item),)
            case {"type": "text", "text": str(said)} | {"role": "user", "content": str(said)}:
                is_failure = re.match(r"\[(your answer|interrupted)", said)
                yield from () if is_failure and any(map(named.count, FAILURES)) else (at(item),)
            case _:
                yield at(item)

    def words(said: str) -> str:
        if any(map(named.count, (*RESULTS, *MEDIA))):
            said = re.sub(r"\\+\[", "[", said)
        if any(map(named.count, MEDIA)):
            said = re.sub(r"\[(image|file)[^\]]*\]", "[gone]", said)
        if any(map(named.count, SUMMARIES)):
            said = re.sub(r"</?summary>", "", said).strip()
        return said

    return at(value)


def body(log: list[Any], agent: str, api: str, blobs: Any) -> Any:
    made = build(log, agent, api=api, policy=FullHistory(), blobs=blobs).body
    return made.get("messages", made.get("input"))


def sent(session: AgentSession, api: str) -> Any:
    made = session.request(api, "some-model").body
    return made.get("messages", made.get("input"))


def written(session: AgentSession, form: str) -> SessionFile:
    write = EXPORTERS[form].write_session
    assert write is not None
    return write(session)


def read(made: SessionFile, folder: Path) -> Talk:
    """Return what an import makes of a session file."""
    file = folder / "session.jsonl"
    file.write_text(made.text, encoding="utf-8")
    with stenolog.open(":memory:") as log:
        import_file(log, file, name="again")
        return Talk(file, "again", list(log["again"].entries()), dict(log.blobs))


def sessions(file: Path) -> Iterator[tuple[Talk, str, AgentSession]]:
    """Yield the session of each agent in a file that was told something."""
    for talk in conversations(file):
        for lane in lanes(talk.entries):
            try:
                yield talk, lane.agent, session_of(talk.entries, lane.agent, talk.blobs)
            except stenolog.errors.InvalidEventError:
                continue


def cross() -> Iterator[Any]:
    for form in FORMS:
        for name, folders in [*OWN.items(), ("others", OTHERS)]:
            marks = () if form == name and name != "claude-code" else (pytest.mark.slow,)
            yield pytest.param(folders, form, id=f"{name} as {form}", marks=marks)


@NEEDS_TRANSCRIPTS
@pytest.mark.parametrize(("folders", "form"), [*cross()])
def test_a_real_session_comes_back_from_each_program_s_file_as_its_agent_was_told_it(
    tmp_path: Path, folders: tuple[str, ...], form: str
) -> None:
    api, main = FORMS[form]
    number = 0
    for talk, agent, session in (each for file in files(*folders) for each in sessions(file)):
        made = written(session, form)
        again, named = read(made, tmp_path), "\n".join(made.notes)
        if PERSONS in named:  # a person's words are the program's there, which says so
            continue
        before = compared(body(talk.entries, agent, api, talk.blobs), named)
        assert compared(body(again.entries, main, api, again.blobs), named) == before, (talk.file, agent)
        number += 1
    assert number


@pytest.mark.parametrize("form", FORMS)
@cases(40, slow=200)
def test_a_generated_log_comes_back_from_each_program_s_file(tmp_path: Path, seeds: range, form: str) -> None:
    api, main = FORMS[form]
    for seed in seeds:
        try:
            session = session_of(history(seed), "coder", BLOBS)
        except stenolog.errors.StenologError:
            continue
        made = written(session, form)
        again, named = read(made, tmp_path), "\n".join(made.notes)
        there = session_of(again.entries, main, again.blobs)
        assert compared(sent(there, api), named) == compared(sent(session, api), named), seed
        assert written(session, form) == made


TALK = (
    UserMessage(text="Bake.", to=["coder"]),
    stenolog.AssistantMessage(agent="coder", text="Baked.", model="claude-opus-4-5"),
    UserMessage(text="And now?", to=["coder"]),
    LlmError(agent="coder", category="overloaded", message="Overloaded"),
)


@pytest.mark.parametrize("form", FORMS)
def test_a_session_names_what_its_program_only_shows(form: str) -> None:
    made = written(session_of(entries(*TALK), "coder", {}), form)

    assert made.notes == ("that an answer failed, which the program shows and does not send: 4",)
    assert made.command[0] in ("claude", "codex", "pi")
    assert made.id in made.command
    assert made.id in made.place


def test_codex_has_the_tokens_and_the_words_of_the_last_answer_and_each_part_of_a_message() -> None:
    log: list[stenolog.Event] = [
        UserMessage(parts=[TextPart(text="Which?"), TextPart(text="Rye?")], to=["coder"]),
        AssistantMessage(agent="coder", text="Rye.", usage=Usage(input=9, output=3)),
    ]

    made = written(session_of(entries(*log), "coder", {}), "codex")

    found = [json.loads(line)["payload"] for line in made.text.splitlines()]
    asked = next(each for each in found if each.get("role") == "user")
    assert [part["text"] for part in asked["content"]] == ["Which?", "Rye?"]
    assert found[-2]["info"]["last_token_usage"]["output_tokens"] == 3
    assert found[-1]["last_agent_message"] == "Rye."


def test_a_session_names_what_is_before_its_context_begins() -> None:
    log = entries(*TALK, stenolog.ModeSwitch(context_from=3), UserMessage(text="Go on.", to=["coder"]))

    notes = session_of(log, "coder", {}).notes

    assert "it is before the position at which the context begins: 1-2" in notes


def test_other_agents_prompts_and_tools_are_named_as_left_out() -> None:
    card = stenolog.AgentCard(persona="You bake.")
    log: list[stenolog.Event] = [
        stenolog.ModeSwitch(cards={"coder": card}),
        *TALK,
        UserMessage(text="Taste.", to=["taster"]),
    ]

    notes = session_of(entries(*log), "coder", {}).notes

    assert "other agents' work is not in it: taster" in notes
    assert "the system prompt and the tools are the program's own" in notes

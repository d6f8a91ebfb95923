"""Sessions that were killed, or cut anywhere: `check file` and `import` say so, and never fail themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.importers import import_file
from stenolog.requests import validate
from tests.requests.judging import SHARED
from tests.transcripts.copilot_given import answer, call, result, session
from tests.transcripts.copilot_given import user as asks
from tests.transcripts.given import assistant, item, lines, message, meta, tool_result, tool_use, user

SAMPLES = [
    *sorted((Path(__file__).parents[1] / "transcripts" / "sessions").iterdir()),
    *sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.json*")),
]
NOT_RUN = "No result: the call was interrupted."


def of_claude(calls: int, answered: int) -> bytes:
    uses = [tool_use(f"toolu_{nth}") for nth in range(calls)]
    results = [user(f"r{nth}", "a", [tool_result(f"toolu_{nth}")]) for nth in range(answered)]
    return lines(user("u", None, "Look"), assistant("a", "u", *uses), *results, user("v", "a", "And?"))


def of_codex(calls: int, answered: int) -> bytes:
    made = [item("function_call", name="sh", arguments="{}", call_id=f"c{n}") for n in range(calls)]
    results = [item("function_call_output", call_id=f"c{n}", output="done") for n in range(answered)]
    return lines(meta(), message("user", "Look"), *made, *results, message("user", "And?"))


def of_openai(calls: int, answered: int) -> bytes:
    function = {"name": "look", "arguments": "{}"}
    made = [{"id": f"c{nth}", "type": "function", "function": function} for nth in range(calls)]
    results = [{"role": "tool", "tool_call_id": f"c{nth}", "content": "done"} for nth in range(answered)]
    spoken = [{"role": "user", "content": "Look"}, {"role": "assistant", "tool_calls": made}]
    return json.dumps([*spoken, *results, {"role": "user", "content": "And?"}]).encode()


def of_copilot(calls: int, answered: int) -> bytes:
    made = [call(f"c{nth}") for nth in range(calls)]
    results = [result(f"c{nth}") for nth in range(answered)]
    return lines(*session(asks("Look"), answer("", *made), *results, asks("And?")))


def of_adk(calls: int, answered: int) -> bytes:
    """Return a session in whose format results may come after a person went on."""
    made = [{"function_call": {"id": f"c{nth}", "name": "look", "args": {}}} for nth in range(calls)]
    results = [
        {"function_response": {"id": f"c{nth}", "name": "look", "response": {}}} for nth in range(answered)
    ]
    turns = [("user", [{"text": "Look"}]), ("m", made), ("m", results), ("user", [{"text": "And?"}])]
    events = [
        {"id": f"e{nth}", "author": who, "timestamp": 1.0 + nth, "content": {"parts": parts, "role": who}}
        for nth, (who, parts) in enumerate(turns)
        if parts
    ]
    about = {"id": "s", "app_name": "app", "user_id": "u", "state": {}, "last_update_time": 9.0}
    return json.dumps({**about, "events": events}).encode()


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot, of_adk])
@pytest.mark.parametrize(("calls", "answered"), [(1, 0), (2, 0), (3, 1), (8, 0), (8, 6)])
def test_check_file_closes_every_call_that_a_person_went_on_after(
    cli: Callable[..., Any], made: Callable[[int, int], bytes], calls: int, answered: int
) -> None:
    Path("killed.jsonl").write_bytes(made(calls, answered))

    ran = cli("check", "file", "killed.jsonl", "--json")
    body = json.loads(cli("check", "file", "killed.jsonl", "--raw", "--api", "openai-chat").out)

    results = [each["content"] for each in body["messages"] if each["role"] == "tool"]
    assert ran.status == 1
    assert ran.data[0]["problems"]["call-without-result"] == calls - answered
    assert (len(results), results.count(NOT_RUN)) == (calls, calls - answered)
    assert list(validate("openai-chat", body)) == []


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot])
def test_an_imported_session_that_was_killed_can_be_sent(
    made: Callable[[int, int], bytes], tmp_path: Path
) -> None:
    (tmp_path / "killed.jsonl").write_bytes(made(3, 1))

    with stenolog.open(":memory:") as log:
        (found,) = import_file(log, tmp_path / "killed.jsonl").conversations
        again = import_file(log, tmp_path / "killed.jsonl").conversations[0]
        conversation = log[found.name]

        (agent,) = conversation.state().lanes
        conversation.join(agent, model="gpt-5")

        assert conversation.request(agent).sendable
        assert again.appended == 0
        assert conversation.state().anomalies == 0


@pytest.mark.parametrize("made", [of_claude, of_codex])
def test_a_killed_session_that_goes_on_gives_the_requests_of_one_import(
    made: Callable[[int, int], bytes], tmp_path: Path
) -> None:
    content = made(3, 1)
    following: dict[Any, bytes] = {
        of_claude: lines(
            assistant("b", "v", {"type": "text", "text": "Yes."}),
            user("late", "b", [tool_result("toolu_2", "late")]),
            user("w", "late", "Good."),
        ),
        of_codex: lines(
            message("assistant", "Yes."),
            item("function_call_output", call_id="c2", output="late"),
            message("user", "Good."),
        ),
    }
    after, bodies = following[made], []
    for versions in ([content + after], [content, content + after]):
        with stenolog.open(":memory:") as log:
            for version in versions:
                (tmp_path / "killed.jsonl").write_bytes(version)
                (found,) = import_file(log, tmp_path / "killed.jsonl").conversations
            conversation = log[found.name]
            (agent,) = conversation.state().lanes
            bodies.append(conversation.request(agent).body)
            assert conversation.state().anomalies == 0

    assert bodies[0] == bodies[1]
    assert NOT_RUN in json.dumps(bodies[0])


def prefixes(content: bytes, seed: int, count: int) -> list[bytes]:
    """Return prefixes of a file: cut at ends of lines, within lines, and in the elements of a list."""
    drawn = random.Random(seed)
    ends = [nth + 1 for nth, byte in enumerate(content) if byte == ord("\n")] or [0]
    cuts = [drawn.choice(ends) if nth % 2 else drawn.randrange(len(content)) for nth in range(count)]
    made = [content[:cut] for cut in cuts]
    if content.startswith(b"[{"):
        whole = json.loads(content)
        made += [json.dumps(whole[: drawn.randint(0, len(whole))]).encode() for _ in range(count)]
    return made


def named(made: Any) -> str:
    return str(made.name if isinstance(made, Path) else made.__name__)


@pytest.mark.parametrize("made", [of_claude, of_codex, of_openai, of_copilot, of_adk, *SAMPLES], ids=named)
def test_no_prefix_of_a_transcript_is_a_defect_of_check_file(
    cli: Callable[..., Any], made: Callable[[int, int], bytes] | Path
) -> None:
    content = made.read_bytes() if isinstance(made, Path) else made(4, 2)
    for nth, prefix in enumerate(prefixes(content, len(content), 12)):
        Path(f"{nth}.jsonl").write_bytes(prefix)

        assert cli("check", "file", f"{nth}.jsonl").status in (0, 1, 2), prefix[-200:]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the recorded transcripts are not beside the checkout")
def test_no_prefix_of_a_recorded_transcript_is_a_defect_of_check_file(cli: Callable[..., Any]) -> None:
    files = [path for path in sorted(SHARED.rglob("transcripts/**/*")) if path.suffix in (".json", ".jsonl")]
    for nth, file in enumerate(files):
        for cut, prefix in enumerate(prefixes(file.read_bytes(), nth, 2)):
            Path(f"{cut}{file.suffix}").write_bytes(prefix)

            assert cli("check", "file", f"{cut}{file.suffix}").status in (0, 1, 2), f"{file} cut {cut}"

"""Five plugins of a few lines each, installed as packages and used from the command line."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, ToolCall, UserMessage
from stenolog.plugins import load_plugin
from stenolog.requests import build
from stenolog.testing import entries

from .conftest import EXAMPLES, Stenolog

MODULES = [module for folder in EXAMPLES for module in folder.glob("*.py")]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_an_example_has_less_than_thirty_lines(module: Path) -> None:
    assert len(module.read_text().splitlines()) < 30


def test_an_api_with_tools_writes_requests_that_are_explained_and_verified(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    stenolog("demo", "--db", "demo.db")
    coder = ("demo", "--agent", "coder", "--api", "ollama", "--db", "demo.db")
    body = json.loads(stenolog("request", *coder, "--raw").stdout)

    assert {tool["type"] for tool in body["tools"]} == {"function"}
    called = [message for message in body["messages"] if "tool_calls" in message]
    assert all(isinstance(call["function"]["arguments"], dict) for m in called for call in m["tool_calls"])
    assert called
    assert "tool_name" in {key for message in body["messages"] for key in message}
    assert stenolog("explain", "demo", "@", "--api", "ollama", "--db", "demo.db").returncode == 0
    assert stenolog("check", "log", "--db", "demo.db").returncode == 0


def test_an_importer_takes_files_that_nothing_else_recognises_and_takes_them_once(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    said = {"type": "message", "user": "U1", "text": "Which test fails?", "ts": "1700000000.000100"}
    (tmp_path / "general.json").write_text(json.dumps([said, {"type": "message", "ts": "x", "text": "?"}, 7]))

    refused = stenolog("import", "general.json", plugins=False)
    first = stenolog("import", "general.json")
    again = stenolog("import", "general.json")
    log = stenolog("log", "general", "--kind", "user")
    doctor = stenolog("check", "file", "general.json")

    assert (refused.returncode, "found a list" in refused.stderr) == (2, True)
    assert "general.json: message 2: " in first.stderr
    assert re.search(r"general +1 entry +slack", first.stdout)
    assert "slack" in again.stdout
    assert "2023-11-14" in log.stdout
    assert "U1" in log.stdout
    assert doctor.returncode in (0, 1)
    assert "slack" in doctor.stdout


def test_a_turn_rule_gives_the_turns_and_who_reads_without_it_is_told_so(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "says.json").write_text(json.dumps(["One.", "Two.", "Three."]))
    agents = "".join(f'[agents.{name}]\nmodel = "scripted:says.json"\n' for name in ("pro", "con", "judge"))
    turns = 'turns = { rule = "debate", first = "pro", second = "con", judge = "judge" }\n'
    (tmp_path / "team.toml").write_text(turns + agents)

    refused = stenolog("run", "team.toml", "Is it so?", plugins=False)
    ran = stenolog("run", "team.toml", "Is it so?")
    log = json.loads(stenolog("log", "team", "--kind", "assistant", "--json").stdout)["data"]["entries"]
    blind = stenolog("state", "team", plugins=False)
    seeing = stenolog("state", "team")
    verified = stenolog("check", "log", "team")

    assert (refused.returncode, "found 'debate': a plugin may add it" in refused.stderr) == (2, True)
    assert (ran.returncode, ran.stderr.count("defect")) == (0, 0)
    assert [each["event"]["agent"] for each in log] == ["pro", "con", "pro", "con", "judge"]
    assert "'debate', a rule that is not registered here" in blind.stdout
    assert "not registered" not in seeing.stdout
    assert verified.returncode == 0


@pytest.mark.slow
def test_recorded_calls_are_built_again_under_the_rule_and_not_without_it(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "says.json").write_text(json.dumps(["One.", "Two.", "Three."]))
    agents = "".join(f'[agents.{name}]\nmodel = "scripted:says.json"\n' for name in ("pro", "con", "judge"))
    turns = 'turns = { rule = "debate", first = "pro", second = "con", judge = "judge" }\n'
    (tmp_path / "team.toml").write_text(turns + agents)
    stenolog("run", "team.toml", "Is it so?", "--record", "rec.db")

    again = stenolog("retry", "--db", "rec.db")
    blind = stenolog("retry", "--db", "rec.db", plugins=False)

    assert (again.returncode, "5 calls: the same requests" in again.stdout) == (0, True)
    assert (blind.returncode, "position 1: expected a turn rule: " in blind.stderr) == (2, True)


def test_a_chat_channel_takes_each_message_once_and_delivers_each_answer(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    (tmp_path / "says.json").write_text(json.dumps(["Rye.", "Wheat."]))
    inbox, outbox = tmp_path / "box" / "in", tmp_path / "box" / "out"
    inbox.mkdir(parents=True)
    (inbox / "1.txt").write_text("Which flour?")
    served = ("chat", "--model", "scripted:says.json", "--channel", "folder", "--option", "folder=box")

    first = stenolog(*served)
    (inbox / "2.txt").write_text("And for rolls?")
    second = stenolog(*served)
    third = stenolog(*served)

    assert [first.returncode, second.returncode, third.returncode] == [0, 0, 0]
    assert [file.read_text() for file in sorted(outbox.iterdir())] == ["Rye.", "Wheat."]


def test_what_a_channel_needs_is_said_by_name(stenolog: Stenolog, tmp_path: Path) -> None:
    (tmp_path / "says.json").write_text(json.dumps(["Rye."]))
    served = ("chat", "--model", "scripted:says.json", "--channel", "folder")

    assert "expected the option folder, found none" in stenolog(*served).stderr
    assert "flder: no such option; expected one of folder" in stenolog(*served, "--option", "flder=x").stderr
    assert "a plugin may add it" in stenolog(*served, plugins=False).stderr


@contextmanager
def _chat_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve Chat Completions on a local port; yields its address and the bodies that were sent to it."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = json.dumps({"choices": [{"message": {"content": "Rye, mostly."}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions", bodies
    finally:
        server.shutdown()
        server.server_close()


def test_a_model_answers_over_http_and_its_failure_is_told_in_the_log(
    stenolog: Stenolog, tmp_path: Path
) -> None:
    team = tmp_path / "team.toml"
    with _chat_server() as (url, bodies):
        team.write_text(f'[agents.baker]\nmodel = {{ use = "http-model:llama3", url = "{url}" }}\n')
        ran = stenolog("run", "team.toml", "Which flour?")
    retries = "retries = { attempts = { network = 0 } }"
    team.write_text(f'[agents.baker]\n{retries}\nmodel = {{ use = "http-model:llama3", url = "{url}" }}\n')
    failed = stenolog("run", "team.toml", "And for rolls?")
    errors = json.loads(stenolog("log", "team", "--kind", "error", "--json").stdout)["data"]["entries"]

    assert (ran.returncode, "Rye, mostly." in ran.stdout) == (0, True)
    assert [body["messages"][-1]["content"] for body in bodies] == ["Which flour?"]
    assert failed.returncode == 1
    assert [each["event"]["category"] for each in errors] == ["network"]


def test_malformed_arguments_of_a_call_do_not_stop_a_plugins_api() -> None:
    load_plugin(str(next(module for module in MODULES if module.stem == "stenolog_ollama")))
    broken = AssistantMessage(agent="coder", parts=[ToolCall(id="c1", name="ls", arguments="{not json")])

    body = build(entries(UserMessage(text="Look."), broken), "coder", api="ollama").body

    made = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    assert made == [{"function": {"name": "ls", "arguments": {"_raw": "{not json"}}}]

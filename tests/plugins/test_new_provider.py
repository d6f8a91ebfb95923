"""What is known of an API is in its format; a plugin's format and model are as those shipped are."""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Team
from stenolog.adapters.agents.command import inherited
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS, split_command
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.identity import client_of
from stenolog.apps.tap.recording.message_events import is_by_client
from stenolog.apps.tap.supervisor import launch
from stenolog.apps.tap.upstreams import upstreams
from stenolog.errors import MissingExtraError, ModelError, UnknownFormatError
from stenolog.events import LlmError, Usage
from stenolog.importers import IMPORTERS, Importer, files_in, recognise
from stenolog.models import (
    MODELS,
    Clients,
    HttpModel,
    JsonLines,
    ModelRequest,
    Outgoing,
    ResponseDelta,
    StreamReader,
    Transport,
    answer_from,
    model_from_string,
    provider_error,
    recording,
    unchanged,
)
from stenolog.plugins import PROGRAMS, FileFormat, Foreign, Program, RequestSigns, Signature, shows
from stenolog.projections.views.acts import is_of_program
from stenolog.requests import FORMATS, Format, Message, Writer, law, proofs, register_api, texts

PACKAGE = Path(stenolog.__file__).parent
FORMS = PACKAGE / "projections" / "formats"
KEYS = {
    "anthropic": {
        "tool_use",
        "tool_use_id",
        "redacted_thinking",
        "content_block_start",
        "content_block_delta",
    },
    "openai-chat": {"tool_calls", "tool_call_id", "finish_reason", "choices", "reasoning_content"},
    "openai-responses": {"function_call", "function_call_output", "input_text", "output_text"},
    "gemini": {"functionCall", "functionResponse", "usageMetadata", "candidates", "thoughtSignature"},
}
"""Keys that the JSON of one API has: a module that names two of them knows that API."""
SIGNS = re.compile("|".join(chain(KEYS, *KEYS.values())))
KNOW_JSON = {
    "adapters/frameworks/pydantic_ai_parts.py",
    "adapters/programs/claude_code/output.py",
    "projections/views/acts.py",
}
"""Modules outside the formats that know the JSON of an API: frameworks, and files and lines of programs."""
NAME_AN_API = {
    "apps/cli/demo_events.py",
    "adapters/programs/gemini_cli/__init__.py",
    "adapters/programs/gemini_cli/sessions.py",
}
"""Modules outside the formats that name an API: clients, kinds of models, the default, the demo."""


@cache
def _texts(module: Path) -> set[str]:
    """Return the texts in a module's code, beside its docstrings, if one may be of an API."""
    text = module.read_text()
    if not SIGNS.search(text):
        return set()
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return {node.value for node in constants if isinstance(node.value, str)}


def _outside() -> Iterator[tuple[str, set[str]]]:
    """Yield the modules outside the formats and plugins, each with its texts."""
    for path in PACKAGE.rglob("*.py"):
        if FORMS not in path.parents and PACKAGE / "contrib" not in path.parents:
            yield path.relative_to(PACKAGE).as_posix(), _texts(path)


def test_no_other_module_knows_the_json_of_an_api() -> None:
    assert {
        name for name, said in _outside() if any(len(said & keys) > 1 for keys in KEYS.values())
    } == KNOW_JSON


def test_no_other_module_names_an_api() -> None:
    assert {name for name, said in _outside() if said & KEYS.keys()} == NAME_AN_API


class Telegrams(Writer):
    """The body of the toy provider: `{"to": model, "turns": [...]}`."""

    def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            text = " ".join(texts(message))
            self.builder.messages.append({"from": message.role, "says": text})
            self.builder.explain(message, text)

    def close(self, messages: Sequence[Message]) -> dict[str, Any]:
        self.write(messages)
        return {"to": self.preamble.model, "turns": self.builder.messages.copy()}


@law
def has_turns(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Have a turn."""
    if not body.get("turns"):
        yield "/turns", "none"


class Lines(StreamReader):
    """The reader of the toy provider's stream: lines of JSON, each with more text; the last has tokens."""

    provider = "toy"

    def is_event(self, given: Mapping[str, Any]) -> bool:
        return not given.keys().isdisjoint(("says", "tokens"))

    def deltas(self, event: dict[str, Any]) -> list[ResponseDelta]:
        if "tokens" in event:
            self.usage, self.finish_reason = Usage(output=event["tokens"]), "stop"
        return self.parts.add(0, "text", event.get("says", ""))


class Toy(HttpModel):
    """A model of the toy provider, by httpx alone. `spoils`: its client changes the body on its way."""

    provider = "toy"
    api = "toy"

    def __init__(self, name: str, *, url: str = "", api_key: str = "", spoils: bool = False) -> None:
        self.name, self.url, self.api_key, self.spoils = name, url, api_key, spoils
        self.clients = Clients(httpx2.AsyncClient, httpx2.AsyncClient.aclose)

    def reader(self) -> StreamReader:
        return Lines()

    async def events(self, prompt: ModelRequest, secrets: list[str]) -> AsyncGenerator[Outgoing | Any, None]:
        secrets.append(self.api_key)
        client = await self.clients.get()
        yield (outgoing := prompt.outgoing(Transport("POST", "/telegraph", {"stream": True})))
        content = outgoing.content + b" " if self.spoils else outgoing.content
        with unchanged(client, outgoing):
            opened = client.stream("POST", f"{self.url}/telegraph", content=content)
            response = await opened.__aenter__()
        try:
            if response.status_code >= 400:
                words = (await response.aread()).decode()
                raise provider_error(
                    response.status_code, "", words, headers=response.headers, secrets=secrets
                )
            async for line in response.aiter_lines():
                yield json.loads(line)
        finally:
            await opened.__aexit__(None, None, None)


@pytest.fixture
def toy() -> Iterator[None]:
    """Add the toy provider where the page says: its format, its laws, its model."""
    register_api(Format("toy", 1, writer=Telegrams, messages="turns", laws=(has_turns,), stream=Lines))
    MODELS.add("toy", Toy)
    yield
    FORMATS.remove("toy")
    MODELS.remove("toy")


@contextmanager
def _served(status: int, lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[bytes]]]:
    """Serve the same answer to every request; yields the address and the bodies that were sent."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            answer = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.usefixtures("toy")
def test_a_plugins_http_model_answers_and_its_bytes_are_proved(tmp_path: Path) -> None:
    with (
        _served(200, [{"says": "Rye, "}, {"says": "mostly."}, {"tokens": 3}]) as (url, bodies),
        stenolog.open(tmp_path / "talks.db") as log,
    ):
        model = model_from_string("toy:t1", url=url)
        answer = Team([Agent("baker", llm=model)]).ask_sync(log["bakery"], "Which flour?")
        found = proofs(log["bakery"])

    assert answer == "Rye, mostly."
    assert json.loads(bodies[0]) == {
        "to": "t1",
        "turns": [{"from": "user", "says": "Which flour?"}],
        "stream": True,
    }
    assert [(proof.outcome, proof.covers) for proof in found] == [("same", "sent")]


@pytest.mark.usefixtures("toy")
def test_an_answer_of_a_plugins_api_is_read_whole_and_as_it_streams() -> None:
    stream = recording([{"says": "Rye, "}, {"says": "mostly."}, {"tokens": 3}], agent="baker")
    assert [*stream]

    assert stream.answer() == answer_from({"says": "Rye, mostly.", "tokens": 3}, agent="baker")
    assert stream.answer() == AssistantMessage(
        agent="baker", text="Rye, mostly.", finish_reason="stop", usage=Usage(output=3)
    )


@pytest.mark.usefixtures("toy")
def test_bytes_that_a_plugins_client_changed_are_not_sent(tmp_path: Path) -> None:
    with (
        _served(200, [{"says": "Rye."}]) as (url, bodies),
        stenolog.open(tmp_path / "talks.db") as log,
        pytest.raises(ModelError, match="the SDK changed the request on its way"),
    ):
        Team([Agent("baker", llm=Toy("t1", url=url, spoils=True))]).ask_sync(log["bakery"], "Flour?")

    assert bodies == []


@pytest.mark.usefixtures("toy")
def test_a_refusal_has_its_category_and_no_key(tmp_path: Path) -> None:
    with (
        _served(401, [{"error": "no such key: sesame-1234"}]) as (url, _),
        stenolog.open(tmp_path / "talks.db") as log,
    ):
        with pytest.raises(ModelError):
            Team([Agent("baker", llm=Toy("t1", url=url, api_key="sesame-1234"))]).ask_sync(
                log["bakery"], "Flour?"
            )
        (error,) = [entry.event for entry in log["bakery"] if isinstance(entry.event, LlmError)]

    assert error.category == "unauthorized"
    assert "sesame" not in error.message


def test_every_client_takes_a_server_its_key_and_its_timeouts_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", "k")
    given: dict[str, Any] = {
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": "MY_KEY",
        "timeouts": {"idle": 3},
    }
    made: list[Any] = []
    for kind in (
        kind for kind, each in MODELS.items() if isinstance(each, type) and issubclass(each, HttpModel)
    ):
        with suppress(MissingExtraError):
            made.append(model_from_string(f"{kind}:m", **given))

    assert len(made) > 3
    assert {model.timeouts.idle for model in made} == {3}


# An agent program is one value: whoever has to do with programs asks it, and names none.


# The Claude Agent SDK is a framework: its adapter is in the room of frameworks, and is called after it.
MODELS_AND_SDK = r"-opus|-sonnet|-haiku|-\d|.agent.sdk|_?session_?store"
NAMES = re.compile(rf"claude(?!{MODELS_AND_SDK})|codex|gemini.?cli|opencode|qwen.?code", re.IGNORECASE)
ROOMS = ("contrib/", "adapters/programs/", "projections/formats/")
STORY = Importer("story", is_start=lambda first, stream: True)
WRITER = Importer("writer", is_record=lambda value: "chapter" in value)


@pytest.fixture
def writer() -> Iterator[Program]:
    """Register a program, all of whose parts are in this file."""
    program = Program(
        "writer",
        sessions=(FileFormat("writer", "a chapter", f"{__name__}:WRITER", (shows("chapter"),)),),
        foreign=(Foreign("a draft", shows("draft")),),
        executable="writer",
        variables=("WRITER_*",),
        output=lambda: JsonLines(lambda line, turn: None),
        command=lambda words: [*words, "--json"],
        requests=RequestSigns("author", ("writer-cli",)),
        wrapped=(r"<chapter>",),
        launch=lambda: lambda given: [*given.words, f"--url={given.base}"],
    )
    with PROGRAMS.restored(), IMPORTERS.restored(), OUTPUT_FORMATS.restored():
        PROGRAMS.add("writer", program)
        yield program


def test_only_the_room_of_a_program_names_it() -> None:
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    naming = {name for name, path in modules.items() if not name.startswith(ROOMS) and _names_one(path)}

    assert not naming


def _names_one(path: Path) -> bool:
    text = path.read_text()
    tree = ast.parse(text if NAMES.search(text) else "")
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return any(isinstance(node.value, str) and NAMES.search(node.value) for node in texts)


def test_a_program_of_a_plugin_is_known_wherever_a_built_in_one_is(writer: Program) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    exchange = RecordedExchange("1", at, "POST", "/v1/messages", "x", headers={"user-agent": "writer-cli/2"})

    assert recognise(b'{"chapter": 1}\n{"chapter": 2}\n') == "writer"
    assert split_command("bin/writer -x") == ("bin/writer -x --json", "writer")
    assert inherited({"WRITER_KEY": "k", "OTHER": "o"}, ["writer"]) == {"WRITER_KEY": "k"}
    assert client_of(exchange) == "author"
    assert is_by_client("<chapter> 1")
    assert is_of_program("writer")
    assert not is_of_program("reader")
    assert launch(["writer"], "http://tap", upstreams([], {}), {}).command == ["writer", "--url=http://tap"]


def test_a_file_of_a_program_that_has_no_importer_is_refused_by_its_title(writer: Program) -> None:
    with pytest.raises(UnknownFormatError, match="found a draft, which has no importer"):
        recognise(b'{"draft": 1}\n{"draft": 2}\n')


@pytest.mark.parametrize("word", ["bin/writer", "writer.exe", "@acme/writer@latest", "dist/writer.js"])
def test_a_command_is_known_by_its_name_without_folder_suffix_and_version(writer: Program, word: str) -> None:
    assert writer.is_command(word)
    assert writer.is_named_in(word)


def test_a_name_that_only_contains_a_programs_inherits_nothing_of_it(writer: Program) -> None:
    there = {"WRITER_KEY": "k"}

    assert inherited(there, ["npx", "@acme/writer-acp@2"]) == there
    assert inherited(there, ["ghostwriter"]) == {}
    assert split_command("writer-acp") == ("writer-acp", "text")


def test_files_of_a_suffix_that_a_format_names_are_found_in_a_folder_if_it_takes_them(tmp_path: Path) -> None:
    for name in (".writer.md", "story.MD", "README.md", "diary.txt"):
        (tmp_path / name).write_text("# a diary" if name == "README.md" else "# a story\n")
    story = FileFormat(
        "story", "a story", f"{__name__}:STORY", (Signature(begins=b"# a story"),), suffixes=(".md",)
    )
    passed: list[Path] = []
    with PROGRAMS.restored(), IMPORTERS.restored():
        PROGRAMS.add("story", Program("story", (story,)))
        found = [path.name for path in files_in(tmp_path, passed_over=passed.append)]

    assert found == [".writer.md", "story.MD"]
    assert [path.name for path in passed] == ["README.md", "diary.txt"]

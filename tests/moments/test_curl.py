"""A moment exported for curl: a shell and the real curl send the very bytes of the request."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

import stenolog
from stenolog import Log, UserMessage
from stenolog.errors import CallerError
from stenolog.testing import example_conversation
from tests.llms.server import JSON, Received, Reply, Server

HOSTILE = (
    """it's "quoted" $HOME ${IFS} $(id) `id` \\ \\n \\\\ !! !x #c ; & | > < * ? ~ """
    """% %s {a,b} [x] '' ''' '\\'' """
)
TEXTS = {
    "quotes": HOSTILE,
    "line feeds at the end": "END\nEOF\n\n\n",
    "returns": "a\r\nb\rc\t",
    "controls": "\x00\x01\x1b[31m\x7f\x85\u2028\u202e",
    "unicode": "проверь 日本語 😀 é e\u0301 \ufeff",
    "a script": "</script>'; rm -rf / #\nEND",
}
KEYS = {
    "OPENAI_API_KEY": "sk-1'\"$x",
    "ANTHROPIC_API_KEY": "sk-2",
    "GEMINI_API_KEY": "sk-3",
    "CO_API_KEY": "sk-4",
}
BASES = {"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": "", "GOOGLE_GEMINI_BASE_URL": "", "CO_API_URL": ""}
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gpt-5:generateContent",
    "cohere": "/v2/chat",
}
SHELLS = [each for each in ("sh", "bash", "dash", "zsh", "ksh", "busybox") if shutil.which(each)]
needs_curl = pytest.mark.skipif(not (shutil.which("curl") and SHELLS), reason="no curl, or no shell, is here")


@pytest.fixture
def log() -> Iterator[Log]:
    """Return a log whose conversation `team` has a coder."""
    with stenolog.open(":memory:") as made:
        made["team"].extend(example_conversation())
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server that keeps the bytes of what it is sent."""
    with Server(lambda _: Reply([b'{"ok": true}'], headers=JSON)) as made:
        yield made


def sent(server: Server, script: str, folder: Path, shell: str = "sh") -> Received:
    """Run the script in a shell, and return the request that came."""
    file = folder / "request.sh"
    file.write_text(script)
    bases = {name: server.url + path for name, path in BASES.items()}
    environment = {"PATH": os.environ["PATH"], **bases, **KEYS, "NO_PROXY": "*"}
    command = [*(["busybox", "sh"] if shell == "busybox" else [shell]), str(file)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"ok": true}'
    return server.received[-1]


@needs_curl
@pytest.mark.parametrize("api", PATHS)
def test_the_bytes_the_path_and_the_key_arrive(log: Log, server: Server, tmp_path: Path, api: str) -> None:
    request = log["team"].request("coder", 8, api)
    script = log["team"].export("curl", agent="coder", at=8, api=api)

    got = sent(server, script, tmp_path)

    body = {name: value for name, value in request.body.items() if (name, api) != ("model", "gemini")}
    assert got.path == PATHS[api]
    assert got.body == body
    assert api == "gemini" or sha256(got.content).hexdigest() == request.sha256
    assert got.content == request.bytes or api == "gemini"
    assert f"{len(got.content)} bytes, sha256 {sha256(got.content).hexdigest()}" in script
    assert got.headers["content-type"] == "application/json"
    keys = {name: got.headers.get(name) for name in ("authorization", "x-api-key", "x-goog-api-key")}
    assert [value for value in keys.values() if value] == [
        {"anthropic": "sk-2", "gemini": "sk-3", "cohere": "Bearer sk-4"}.get(
            api, f"Bearer {KEYS['OPENAI_API_KEY']}"
        )
    ]
    assert not any(key in script for key in KEYS.values())


@needs_curl
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_arrives_to_the_byte(
    log: Log, server: Server, tmp_path: Path, name: str, shell: str
) -> None:
    log["hostile"].append(UserMessage(text=TEXTS[name], to=["coder"], author="o'neil\n$x"))
    request = log["hostile"].request("coder", api="openai-chat")

    got = sent(server, log["hostile"].export("curl", agent="coder", api="openai-chat"), tmp_path, shell)

    assert got.content == request.bytes
    assert sha256(got.content).hexdigest() == request.sha256


@needs_curl
def test_ten_megabytes_arrive_to_the_byte(log: Log, server: Server, tmp_path: Path) -> None:
    log["large"].append(UserMessage(text=f"{HOSTILE}\n" * (10_000_000 // len(HOSTILE)), to=["coder"]))
    request = log["large"].request("coder", api="openai-chat")

    got = sent(server, log["large"].export("curl", agent="coder", api="openai-chat"), tmp_path)

    assert len(got.content) > 10_000_000
    assert sha256(got.content).hexdigest() == request.sha256


@needs_curl
def test_without_a_key_nothing_is_sent_and_the_variable_is_named(log: Log, tmp_path: Path) -> None:
    script = log["team"].export("curl", agent="coder", at=8, api="openai-chat")

    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )

    assert done.returncode != 0
    assert "OPENAI_API_KEY" in done.stderr


def test_a_prompt_of_a_program_is_not_sent_by_curl(log: Log) -> None:
    with pytest.raises(CallerError, match=r"expected one of the APIs openai-chat, .*, found plain"):
        log["team"].export("curl", agent="coder", at=8, api="plain")

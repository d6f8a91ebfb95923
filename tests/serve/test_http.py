"""`stenolog serve`: the service over HTTP, as a real process and as an application."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from starlette.testclient import TestClient

import stenolog
from stenolog.apps.serve.waiting import MOST_WAITING
from stenolog.serve import application
from tests.forked import python

from .client import said

TOKEN = "correct horse"
KEY = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[stenolog.Log]:
    with stenolog.open(tmp_path / "talks.db") as opened:
        yield opened


@pytest.fixture
def web(log: stenolog.Log) -> Iterator[TestClient]:
    with TestClient(application(log, TOKEN), headers=KEY) as client:
        yield client


def test_a_method_is_a_post_with_one_object_in_and_one_out(web: TestClient, log: stenolog.Log) -> None:
    answer = web.post("/v1/append", json={"conversation": "demo", "events": [said("hi", "m1")]})
    assert answer.status_code == 200
    assert answer.json()["entries"][0]["digest"] == log["demo"].digest


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic correct horse", TOKEN])
def test_nobody_reads_or_writes_without_the_token(web: TestClient, header: str) -> None:
    for answer in (
        web.post("/v1/about", json={}, headers={"Authorization": header}),
        web.get("/v1/tail?conversation=demo", headers={"Authorization": header}),
    ):
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "UnauthorizedError"
        assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("method", "params", "status", "type"),
    [
        ("apend", {}, 404, "MethodNotFoundError"),
        ("append", {}, 400, "InvalidParamsError"),
        (
            "append",
            {"conversation": "x", "events": [{"kind": "note", "event": {}}]},
            400,
            "InvalidParamsError",
        ),
        ("entries", {"conversation": " x"}, 400, "InvalidEventError"),
        ("entries", {"conversation": ""}, 400, "InvalidParamsError"),
        ("entries", {"conversation": "x" * 201}, 400, "InvalidParamsError"),
        ("output", {"conversation": "x", "alias": "@a", "offset": 10**30}, 400, "InvalidParamsError"),
        ("draft", {"conversation": "x", "fence": 10**30, "text": ""}, 400, "InvalidParamsError"),
        ("put_blob", {"base64": "0A\u00c1"}, 400, "InvalidParamsError"),
        ("state", {"conversation": "x", "at": 9}, 404, "PositionNotFoundError"),
        ("blob", {"sha256": "0" * 64}, 404, "BlobNotFoundError"),
        (
            "append",
            {"conversation": "x", "events": [said("hi", "m1")], "expected": 7},
            409,
            "VersionConflictError",
        ),
    ],
)
def test_an_error_has_the_status_and_the_name_of_its_kind(
    web: TestClient, method: str, params: dict[str, Any], status: int, type: str
) -> None:
    answer = web.post(f"/v1/{method}", json=params)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, type)


@pytest.mark.parametrize(
    "query", [f"after={'9' * 30}", f"after={'9' * 5000}", f"after={2**53}", "after=-1", ""]
)
def test_a_stream_that_is_asked_for_in_nonsense_is_refused(web: TestClient, query: str) -> None:
    name = "demo" if query else ""
    answer = web.get(f"/v1/tail?conversation={name}&{query}")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "InvalidParamsError")


def test_a_body_that_is_no_json_is_refused_with_its_place(web: TestClient) -> None:
    answer = web.post("/v1/append", content=b'{"conversation": ')
    assert answer.status_code == 400
    assert "Invalid JSON: EOF while parsing" in answer.json()["error"]["message"]


def test_a_defect_is_told_without_what_was_sent(
    web: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stenolog.Log, "names", lambda *_, **__: 1 / 0)
    answer = web.post("/v1/conversations", json={"prefix": "secret"})
    assert answer.status_code == 500
    assert answer.json() == {
        "error": {"type": "InternalError", "message": "a defect of stenolog: ZeroDivisionError"}
    }
    assert "ZeroDivisionError" in caplog.text, "whoever runs the service sees where"


def test_a_blob_goes_in_and_comes_out(web: TestClient) -> None:
    put = web.post("/v1/put_blob", json={"base64": "aGk="}).json()
    assert web.post("/v1/blob", json=put).json() == {"base64": "aGk="}
    refused = web.post("/v1/put_blob", json={"base64": "a"})
    assert refused.status_code == 400


def test_the_document_describes_every_method_by_valid_schemas(web: TestClient) -> None:
    document = web.get("/openapi.json", headers={"Authorization": ""}).json()
    methods = web.post("/v1/about", json={}).json()["methods"]
    assert [*document["paths"]] == [f"/v1/{name}" for name in methods]
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    names = set(document["components"]["schemas"])
    text = json.dumps(document)
    assert {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]} <= names


def test_the_page_names_every_method_and_field_without_a_script(web: TestClient) -> None:
    page = web.get("/", headers={"Authorization": ""}).text
    assert "<script" not in page
    for name in web.post("/v1/about", json={}).json()["methods"]:
        assert f'<h2 id="{name}">' in page
    places = set(re.findall(r' id="(\w+)"', page))
    assert set(re.findall(r'href="#(\w+)"', page)) <= places, "every value that is named is described"


def test_what_the_service_answers_fits_its_schemas(web: TestClient, log: stenolog.Log) -> None:
    log["demo"].join("coder", model="gpt-5.2")
    schemas = web.get("/openapi.json").json()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("append", {"conversation": "demo", "events": [said("hi there", "m1")]}),
        ("request", {"conversation": "demo", "agent": "coder", "with_text": True, "with_explanation": True}),
        ("state", {"conversation": "demo"}),
        ("timeline", {"conversation": "demo"}),
        ("transitions", {"conversation": "demo", "after": 1}),
        ("search", {"query": "there"}),
        ("claim", {"conversation": "demo", "owner": "one"}),
        ("claims", {}),
        ("tail", {"conversation": "demo", "after": 0}),
        ("fork", {"conversation": "demo", "name": "two"}),
        ("conversations", {}),
    ]
    for method, params in calls:
        answer = web.post(f"/v1/{method}", json=params)
        assert answer.status_code == 200, answer.text
        operation = schemas["paths"][f"/v1/{method}"]["post"]
        for each, value in (
            (operation["requestBody"], params),
            (operation["responses"]["200"], answer.json()),
        ):
            reference = each["content"]["application/json"]["schema"]
            Draft202012Validator({**reference, "components": schemas["components"]}).validate(value)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a service as a process of its own, and its address."""
    command = python("-m", "stenolog", "serve", "--port", "0", "--db", str(tmp_path / "talks.db"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "STENOLOG_TOKEN": TOKEN})
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    # A token that was given stands in no output.
    assert [*first] == ["url"]
    yield process, first["url"]
    process.kill()
    process.wait(timeout=30)
    process.stdout.close()


def events_of(stream: httpx.Response, count: int) -> list[tuple[str, Any]]:
    """Return the first events of a stream, each with its id."""
    found: list[tuple[str, Any]] = []
    id = ""
    for line in stream.iter_lines():
        if line.startswith("id: "):
            id = line[4:]
        if line.startswith("data: "):
            found.append((id, json.loads(line[6:])))
            if len(found) == count:
                break
    return found


def test_a_stream_of_entries_goes_on_behind_the_last_id_that_was_seen(
    served: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    _, url = served
    with stenolog.open(tmp_path / "talks.db") as log, httpx.Client(base_url=url, headers=KEY) as web:
        log["demo"].append(stenolog.UserMessage("one"))
        with web.stream("GET", "/v1/tail", params={"conversation": "demo"}) as stream:
            assert [id for id, _ in events_of(stream, 2)] == ["1", "2"]
        log["demo"].append(stenolog.UserMessage("two"))
        again = {"Last-Event-ID": "2"}
        with web.stream("GET", "/v1/tail", params={"conversation": "demo"}, headers=again) as stream:
            [(id, entry)] = events_of(stream, 1)
        assert (id, entry["event"]["parts"][0]["text"]) == ("3", "two")


def test_a_service_that_is_told_to_end_does_so_in_the_middle_of_a_stream(
    served: tuple[subprocess.Popen[bytes], str],
) -> None:
    process, url = served
    with (
        httpx.Client(base_url=url, headers=KEY) as web,
        web.stream("GET", "/v1/tail", params={"conversation": "demo"}),
    ):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)


def test_calls_that_wait_have_places_of_their_own_and_one_too_many_is_told_so(
    served: tuple[subprocess.Popen[bytes], str],
) -> None:
    _, url = served
    where, body = httpx.URL(url), b'{"conversation": "demo", "after": 50, "wait": 60}'
    head = f"POST /v1/tail HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(socket.create_connection((where.host, where.port or 0)))
            for _ in range(MOST_WAITING + 1)
        ]
        for connection in waiting:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        refused, _, _ = select.select(waiting, [], [], 30)
        assert [each.recv(12) for each in refused] == [b"HTTP/1.1 503"]
        assert httpx.post(f"{url}/v1/about", json={}, headers=KEY).status_code == 200


def test_a_socket_that_is_a_file_is_its_user_s_alone_and_goes_with_the_service(tmp_path: Path) -> None:
    path, db = tmp_path / "socket", tmp_path / "talks.db"
    command = python("-m", "stenolog", "serve", "--host", f"unix:{path}", "--db", str(db))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # what a service that was killed leaves behind
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        with httpx.Client(transport=httpx.HTTPTransport(uds=first["socket"]), base_url=first["url"]) as web:
            key = {"Authorization": f"Bearer {first['token']}"}
            assert web.post("/v1/about", json={}, headers=key).status_code == 200
            assert web.post("/v1/about", json={}).status_code == 401
        assert path.stat().st_mode & 0o777 == 0o600
        # A second one does not take it away.
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0
        assert path.exists()
        process.terminate()
    assert not path.exists()


def test_a_token_that_nobody_gave_is_new_and_printed(tmp_path: Path) -> None:
    command = python("-m", "stenolog", "serve", "--port", "0", "--db", str(tmp_path / "talks.db"))
    without = {name: value for name, value in os.environ.items() if name != "STENOLOG_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=without) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        about = httpx.post(
            f"{first['url']}/v1/about", json={}, headers={"Authorization": f"Bearer {first['token']}"}
        )
        process.terminate()
    assert about.status_code == 200

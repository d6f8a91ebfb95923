"""The same conversation from Python's own API and from the programs of other languages: the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.llms.server import Server

from .fixed import open_fixed
from .rust import agent as rust
from .story import ANSWER, provider, tell, tell_in_python
from .typescript import agent as typescript

PROGRAMS: dict[str, Callable[[], Sequence[str]]] = {
    "rust": rust,
    "typescript": typescript,
}
"""How the program of each language is built, and the command that runs it."""


def told(server: Server, db: Path) -> tuple[str, list[bytes]]:
    """Return the log as JSONL, and the bytes that the provider was sent."""
    with open_fixed(db) as log:
        return log["story"].export("jsonl"), [each.content for each in server.received]


@pytest.mark.parametrize("language", [pytest.param("rust", marks=pytest.mark.slow), "typescript"])
def test_the_log_and_the_requests_have_the_same_bytes_as_from_python(language: str, tmp_path: Path) -> None:
    with provider() as server, open_fixed(tmp_path / "python.db") as log:
        assert tell_in_python(log, f"{server.url}/v1") == ANSWER
        expected = told(server, tmp_path / "python.db")
    program = PROGRAMS[language]()
    with provider() as server:
        code, output = tell(program, tmp_path / "other.db", f"{server.url}/v1")
        assert (code, output.rstrip("\r\n")) == (0, ANSWER)
        assert told(server, tmp_path / "other.db") == expected
    assert len(expected[1]) == 2
    assert {each.headers["content-type"] for each in server.received} == {"application/json"}

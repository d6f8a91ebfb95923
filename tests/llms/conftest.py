from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llms.server import Server
from tests.requests.judging import HERE, complaints

JUDGED = {"/v1/chat/completions": "openai-chat", "/v1/responses": "openai-responses"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that answers by script. What it is sent must be clean under the judges, where these are."""
    with Server() as server:
        yield server
    if HERE:
        judged = [(JUDGED[sent.path], sent.body) for sent in server.received if sent.path in JUDGED]
        assert [complaint for wire, body in judged for complaint in complaints(wire, body)] == []

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.llms.server import Received, Server
from tests.requests.judging import HERE, complaints

JUDGED = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
}
GEMINI = re.compile(r"/models/([\w.-]+):streamGenerateContent")


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a provider that answers by script. The judges, if they are here, accept its requests."""
    with Server() as server:
        yield server
    if HERE:
        assert [complaint for sent in server.received for complaint in held_against(sent)] == []


def held_against(sent: Received) -> list[str]:
    """Return the judge's complaints about a request; Gemini has the name of the model in the path."""
    body: dict[str, Any] = sent.body
    named = GEMINI.search(sent.path)
    if named:
        return complaints("gemini", {"model": named[1], **body})
    return complaints(JUDGED[sent.path], body) if sent.path in JUDGED else []

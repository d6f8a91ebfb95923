"""What holds after any import, however bad the file was; and lines that JSON cannot say."""

from __future__ import annotations

import json
from typing import Any

from stenolog import Log
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.projections.requests.proofs import invalid_requests
from tests.transcripts.given import Import


def assert_sound(log: Log) -> None:
    """Assert that the log is sound: no prefix has a lane whose request breaks a law."""
    assert verify(log).problems == ()
    for name in log.names(archived=True):
        entries = log[name].entries()
        assert list(invalid_requests(entries, all_prefixes=True, blobs=log.blobs)) == []


def words(into: Import) -> list[str]:
    """Return the words of the first conversation."""
    return [getattr(event, "text", "") for event in into.said]


def with_raw(line: dict[str, Any], raw: str | bytes) -> bytes:
    """Return the record as a line, with its one string `@` replaced by bytes that JSON cannot express."""
    return json.dumps(line).encode().replace(b'"@"', raw if isinstance(raw, bytes) else raw.encode())


def said(content: object, **fields: object) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}

"""The independent judges beside the project, where they are there."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stenolog import Request
from stenolog.projections.formats import validate
from stenolog.projections.messages.message import BlobText
from stenolog.projections.messages.sizes import Size, count
from stenolog.projections.requests.pipeline.budget import limits

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODELS = {
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-opus-5",
    "gemini": "gemini-3-pro",
}
"""The APIs that have a judge, each with the strictest model there."""
HERE = (SHARED / "judges").is_dir()
needs_judges = pytest.mark.skipif(not HERE, reason="the judges are not beside this checkout")


def judge(api: str) -> ModuleType:
    """Return the judge of an API."""
    if str(SHARED) not in sys.path:
        sys.path.append(str(SHARED))
    return importlib.import_module(f"judges.{api.replace('-', '_')}")


def complaints(api: str, body: dict[str, Any]) -> list[str]:
    """Return the judge's complaints about a body that goes to the API's strictest model.

    Gemini is asked by its own name where it has one: before version 3 it refuses other things than after. The
    judge of chat completions is OpenAI's, which knows no `reasoning_content`: that is the laws' to judge.
    """
    own = str(body.get("model", ""))
    model = own if api == "gemini" and own.startswith("gemini") else MODELS[api]
    sent = json.loads(json.dumps(body)) | {"model": model}
    for message in sent["messages"] if api == "openai-chat" else ():
        message.pop("reasoning_content", None)
    named = {"model": model} if api == "gemini" else {}
    return [str(found) for found in judge(api).validate(sent, **named) if found.severity == "error"]


def refused(api: str, body: dict[str, Any]) -> list[str]:
    """Return why a provider would refuse a body: the violations of our laws, and the judge's complaints.

    The judges stand beside the authors' checkout alone; without them the laws decide.
    """
    return [*map(str, validate(api, body)), *(complaints(api, body) if HERE else ())]


def faults(api: str, request: Request) -> Iterator[str]:
    """Yield the complaints of the judge and the laws about a request, and whether it exceeds its budget."""
    yield from (f"judge: {complaint}" for complaint in complaints(api, request.body))
    yield from (f"law: {violation}" for violation in validate(api, request.body))
    if request.policy.budget and request.ready:
        room, found = limits(request.policy.budget), weighed(request)
        if not found.fits(room):
            yield f"budget: {found} is more than {room}"


def weighed(request: Request) -> Size:
    """Return the size of a body, measured without the request's own account, at least as small."""
    words = list(words_of(request.body))
    sent = json.dumps(request.body, ensure_ascii=False, separators=(",", ":"))
    return Size(
        messages=0,
        characters=sum(map(len, words)),
        tokens=sum(map(count, words)),
        bytes=len(sent.encode()),
    )


def words_of(value: Any) -> Iterator[str]:
    """Yield every text in a body but the contents of blobs, and the names of types."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("role", "type", "model") and not key.endswith("id"):
                yield from words_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_of(inner)
    elif isinstance(value, str) and not isinstance(value, BlobText):
        yield value

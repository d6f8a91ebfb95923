"""The independent judges beside the project, where they are there."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODELS = {
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-opus-5",
    "gemini": "gemini-3-pro",
}
"""The wires that have a judge, each with the strictest model there."""
HERE = (SHARED / "judges").is_dir()
needs_judges = pytest.mark.skipif(not HERE, reason="the judges are not beside this checkout")


def judge(wire: str) -> ModuleType:
    """The judge of a wire."""
    if str(SHARED) not in sys.path:
        sys.path.append(str(SHARED))
    return importlib.import_module(f"judges.{wire.replace('-', '_')}")


def complaints(wire: str, body: dict[str, Any]) -> list[str]:
    """What the judge of the wire holds against a body that goes to the wire's strictest model.

    Gemini is asked by its own name where it has one: before version 3 it refuses other things than after.
    """
    own = str(body.get("model", ""))
    model = own if wire == "gemini" and own.startswith("gemini") else MODELS[wire]
    sent = json.loads(json.dumps(body)) | {"model": model}
    named = {"model": model} if wire == "gemini" else {}
    return [str(found) for found in judge(wire).validate(sent, **named) if found.severity == "error"]

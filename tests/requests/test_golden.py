"""The bytes of a small conversation's requests, kept in files: a change to them is a change to see.

After a wanted change: `python -m tests.requests.test_golden`, raise `PIPELINE` or the wire's version, and
read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stenolog.adapters.cli.demo import EVENTS
from stenolog.projections.requests import WIRES, build
from stenolog.testing import entries

GOLDEN = Path(__file__).parent / "golden"


def rendered(wire: str, agent: str) -> str:
    """The body and its digest, as text that a person can compare."""
    request = build(entries(*EVENTS), agent, wire=wire)
    kept = {
        "sha256": request.sha256,
        "wire": request.wire,
        "pipeline": request.pipeline,
        "body": request.body,
    }
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def _file(wire: str, agent: str) -> Path:
    return GOLDEN / f"{wire}.{agent}.json"


@pytest.mark.parametrize("agent", ["coder", "reviewer"])
@pytest.mark.parametrize("wire", WIRES)
def test_the_requests_of_the_demo_are_the_golden_ones_byte_for_byte(wire: str, agent: str) -> None:
    assert rendered(wire, agent) == _file(wire, agent).read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for wire in WIRES:
        for agent in ("coder", "reviewer"):
            _file(wire, agent).write_text(rendered(wire, agent), encoding="utf-8")

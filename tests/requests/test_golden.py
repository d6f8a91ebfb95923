"""The bytes of a small conversation's requests, kept in files: a change to them is a change to see.

After a wanted change: `python -m tests.requests.test_golden`, raise `PIPELINE` or the API's version, and
read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stenolog.apps.cli.demo_events import BEGINNING
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import build
from stenolog.testing import entries

GOLDEN = Path(__file__).parent / "golden"


def rendered(api: str, agent: str) -> str:
    """Return the body and its digest, as text that a person can compare."""
    request = build(entries(*BEGINNING), agent, api=api)
    kept = {
        "sha256": request.sha256,
        "api": request.api,
        "pipeline": request.pipeline,
        "body": request.body,
    }
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def _file(api: str, agent: str) -> Path:
    return GOLDEN / f"{api}.{agent}.json"


@pytest.mark.parametrize("agent", ["coder", "reviewer"])
@pytest.mark.parametrize("api", FORMATS)
def test_the_requests_of_the_demo_are_the_golden_ones_byte_for_byte(api: str, agent: str) -> None:
    assert rendered(api, agent) == _file(api, agent).read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for api in FORMATS:
        for agent in ("coder", "reviewer"):
            _file(api, agent).write_text(rendered(api, agent), encoding="utf-8")

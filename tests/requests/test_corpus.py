"""Real sessions: at no point a request that a provider would refuse, and calls stay calls.

The whole of it, every prefix, is `python -m benchmarks corpus`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stenolog import AssistantMessage
from stenolog.projections.pairing import CallKey, pair
from stenolog.projections.requests import build
from stenolog.projections.requests.laws import breaches
from tests.requests.corpus import THOROUGH, TRANSCRIPTS, Talk, files, requests, talks
from tests.requests.judging import MODELS, complaints, needs_judges

HERE = TRANSCRIPTS.is_dir()
FILES = files(*THOROUGH) if HERE else [Path("absent")]
SAMPLE = 23
pytestmark = pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")


@needs_judges
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name[:24])
def test_the_judges_find_no_error_in_a_sample_of_a_sessions_prefixes(file: Path) -> None:
    for talk in talks(file):
        for lane, position, wire, request in requests(talk, every=SAMPLE):
            assert complaints(wire, request.body) == [], (talk.name, lane, position)
            assert list(breaches(wire, request.body)) == []


def _intact(talk: Talk) -> dict[CallKey, int]:
    """Each call that has a result, with the position of that."""
    return pair(talk.entries).results


def _native(talk: Talk, call: CallKey, result: int, wire: str) -> bool:
    """Whether the call is answered by its own result in the request right behind it."""
    asked = talk.entries[call.position - 1].event
    assert isinstance(asked, AssistantMessage)
    request = build(talk.entries[:result], asked.agent, task=asked.task, wire=wire, blobs=talk.blobs)
    return any(part.role == "tool" and result in part.positions for part in request.parts)


@pytest.mark.parametrize("wire", MODELS)
def test_of_a_hundred_intact_calls_ninety_nine_stay_native(wire: str) -> None:
    native = [
        _native(talk, call, result, wire)
        for file in FILES
        for talk in talks(file)
        for call, result in _intact(talk).items()
    ]

    assert len(native) > 1000
    assert sum(native) >= 0.99 * len(native)

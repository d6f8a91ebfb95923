"""No certificate is false: models were really sent the bodies, by any process, killed or not."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog.analysis import certify
from tests.random_cases import seeds

from . import actions
from .models import Talker
from .simulation import Run, play

SHORTEST = 5


@seeds(4, slow=20, nightly=300)
def test_no_certificate_of_a_simulated_run_is_false(
    seeds: range, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: dict[tuple[str, str], list[str]] = defaultdict(list)
    stream: Any = Talker.stream

    def kept(self: Talker, prompt: Any) -> Any:
        body = json.dumps(prompt.body, ensure_ascii=False)
        sent[prompt.conversation, prompt.lane.partition("/")[0]].append(body)
        return stream(self, prompt)

    monkeypatch.setattr(Talker, "stream", kept)
    given = 0
    for seed in seeds:
        sent.clear()
        play(Run(seed, tuple(actions.script(seed))), copy=tmp_path / f"{seed}.db")
        with stenolog.open(tmp_path / f"{seed}.db") as log:
            for conversation, agent in [*sent]:
                if conversation in log:
                    bodies = sent[conversation, agent]
                    given += _given(log[conversation], agent, bodies, Random(seed))
    assert given


def _given(conversation: stenolog.Conversation, agent: str, bodies: list[str], random: Random) -> int:
    """Return how many certificates are given about some of a conversation's texts; none may be false."""
    entries = list(conversation.entries())
    texts = [(entry, str(getattr(entry.event, "text", ""))) for entry in entries]
    spoken = [(entry, text) for entry, text in texts if len(text) > SHORTEST]
    given = 0
    for entry, text in random.sample(spoken, min(4, len(spoken))):
        what: dict[str, Any]
        # A short entry is quoted by whole words, so "answer 10" does not quote "answer 1".
        whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
        for what, found in (({"never": [entry]}, whole), ({"texts": [text]}, re.compile(re.escape(text)))):
            if certify(entries, agent, blobs=conversation.log.blobs, **what).is_given:
                given += 1
                assert not any(map(found.search, bodies)), (conversation.name, agent, entry.position)
    return given

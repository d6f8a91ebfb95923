"""Real sessions: at no point a request that a provider would refuse, nothing lost, and calls stay calls.

The whole of it, every prefix under every policy, is `python -m benchmarks corpus`.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from stenolog.projections.views.tool_pairs import pair
from tests.requests.corpus import THOROUGH, TRANSCRIPTS, conversations, files, requests
from tests.requests.judging import MODELS, faults, needs_judges
from tests.requests.lossless import Account, is_native
from tests.requests.policies import REAL

HERE = TRANSCRIPTS.is_dir()
FILES = files(*THOROUGH) if HERE else [Path("absent")]
SAMPLED = list(zip(FILES, cycle(REAL), strict=False))
"""Each file under one of the policies."""
SAMPLE = 23
SAMPLE_OF_RESULTS = 5
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout"),
]


@needs_judges
@pytest.mark.parametrize(("file", "policy"), SAMPLED, ids=lambda given: getattr(given, "name", given))
def test_the_judges_find_no_error_in_a_sample_of_a_sessions_prefixes(file: Path, policy: str) -> None:
    for conversation in conversations(file):
        for _, api, request in requests(conversation, REAL[policy], every=SAMPLE):
            assert list(faults(api, request)) == [], (conversation.name, request.agent, request.at)


@pytest.mark.parametrize("api", MODELS)
def test_nothing_is_lost_and_of_a_hundred_intact_calls_ninety_nine_stay_native(api: str) -> None:
    account, native = Account(), []
    for conversation in (conversation for file in FILES for conversation in conversations(file)):
        pairs = pair(conversation.entries).pairs
        for _, _, request in requests(conversation, apis=[api], every=SAMPLE_OF_RESULTS):
            account.of([conversation.entries[request.at - 1]], request)
            call = pairs[request.at].call if request.at in pairs else None
            if call is not None and (call.agent, call.task) == (request.agent, request.task):
                native.append(is_native(request.at, request))

    assert account.lost == []
    assert min(account.found[what] for what in ("user texts", "answers", "calls", "results")) > 50
    assert sum(native) >= 0.99 * len(native) > 200

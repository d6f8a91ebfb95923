"""Real sessions of Claude Code and Codex: what their compactions took, compared, asked otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

import stenolog
from stenolog.apps.views.asked_request import AskedRequest
from stenolog.apps.views.compactions import compacted_request, compactions_of
from stenolog.apps.views.lanes import lane, means, own_api
from stenolog.importers import import_file
from stenolog.projections.analysis.whatif import whatif
from stenolog.projections.requests import lanes
from tests.requests.judging import SHARED

TRANSCRIPTS = SHARED / "transcripts"
FILES = [
    *sorted((TRANSCRIPTS / "claude_code").glob("[bd]*-0.jsonl")),
    *sorted((TRANSCRIPTS / "codex").glob("*.jsonl")),
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILES, reason="the real transcripts are not beside the project"),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stenolog.Log]:
    with stenolog.open(tmp_path_factory.mktemp("real") / "talks.db") as opened:
        for file in FILES:
            import_file(opened, file)
        yield opened


def test_of_every_compaction_the_sums_agree_and_what_it_took_can_be_put_back(log: stenolog.Log) -> None:
    kinds = set()
    for name in log.names():
        for each in lanes(log[name].entries()):
            for one in compactions_of(log[name], each.address):
                found = compacted_request(log[name], each.address, one.position, restore=None, api=None)
                kinds.add((one.kind, one.is_readable))
                before = found.beside_before + sum(run.tokens_before for run in found.runs)
                after = found.beside_after + sum(run.tokens_after for run in found.runs)
                assert (before, after) == (found.tokens_before, found.tokens_after)
                gone = next(run.first for run in found.runs if run.fate in ("gone", "only in the summary"))
                back = compacted_request(log[name], each.address, one.position, restore=gone, api=None)
                assert back.restored is not None
                here = {position for part in back.restored.request.parts for position in part.positions}
                assert {gone, *back.restored.positions} <= here
    assert kinds == {("summary", True), ("summary", False), ("hidden", True)}


def test_asked_otherwise_it_is_the_request_of_the_whole_log(log: stenolog.Log) -> None:
    for name in log.names():
        talk = log[name]
        for each in lanes(talk.entries())[:2]:
            for at in range(10, talk.position, talk.position // 3):
                asked = AskedRequest(
                    talk, each.address, at, own_api(talk, each.address), None, [], "run", {at // 2: "x"}
                )
                try:
                    whole = whatif(
                        talk.entries(at=at),
                        **lane(each.address)._asdict(),
                        edits=asked.edits,
                        mode="run",
                        api=asked.api or "",
                        **means(talk),
                    )
                except stenolog.errors.InvalidEventError:  # a mode switch stands there
                    continue
                assert asked.request().at_rate(whole.other.rate) == whole.other


def test_every_screen_of_them_is_served(log: stenolog.Log) -> None:
    with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as web:
        for name in log.names():
            for page in ("diff", "compaction", "whatif", "diff.json", "compaction.json", "whatif.json"):
                answer = web.get(f"/{page}/{name}", params={"budget": "16k"} if "whatif" in page else {})
                assert answer.status_code == 200, (name, page)
                assert page.endswith("json") or answer.text.count("<") < 8_000

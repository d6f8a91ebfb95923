"""One conversation under chat, agent and run mode: told, interrupted anywhere, and told again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stenolog
from stenolog import LlmError
from stenolog.contrib.crewagent import export_crewagent
from stenolog.importers import import_file
from tests.examples.harness import clean, finished, killed, outcome, run, said
from tests.postgres.in_schemas import copy

NAME = "crewagent"
WIDE = {"COLUMNS": "200"}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Run the program to its end, and return its output and its database."""
    folder = tmp_path_factory.mktemp("played")
    return said(NAME, folder, env=WIDE), folder / f"{NAME}.db"


def test_the_story_shows_three_modes_a_large_output_a_timeout_a_restart_and_a_cut(
    played: tuple[str, Path],
) -> None:
    told, _ = played

    told_in_order = [
        "── chat mode",
        "── agent mode",
        "run_tests gives 5,400,119 characters, kept whole as @state/logs/tool-results/",
        "of 5,400,119 characters of output it was shown 326 tokens",
        "crew calls read_output",
        "✂ timeout: no token for 60 s",
        "user: continue",
        "crew: takes it for UTC.",
        "── run mode, run-1, node reproduce",
        "── run mode, run-1, node mend",
        "*** the program is started anew; nothing but the log is left ***",
        "over-budget",
        "crew: The parser takes a zone now.",
        "── run mode, run-1, node prove",
        "── chat mode",
    ]
    places = [told.index(line) for line in told_in_order[:-1]] + [told.rindex("── chat mode")]
    assert places == sorted(places)


def test_each_request_begins_with_what_its_mode_has(played: tuple[str, Path]) -> None:
    sent = [text.split("crew")[0] for text in played[0].split("… sent ")[1:]]
    around = [", ".join(re.findall(r"the history: .* \((.*)\)", text)) for text in sent]

    last = "mode-rules, mode-banner"
    run = f"{last}, run-directive, node-brief, step-context"
    assert list(dict.fromkeys(rules.replace("cut-note, ", "") for rules in filter(None, around))) == [
        last,
        f"persona, {last}",
        f"persona, {run}",
    ]
    assert "    behind the history: Talk; call no tools. (mode-rules)" in sent[0].splitlines()


def test_its_log_is_clean_and_every_judge_is_content(played: tuple[str, Path]) -> None:
    clean(played[1])


def test_a_second_start_tells_the_story_and_adds_nothing(played: tuple[str, Path]) -> None:
    told, path = played

    again = said(NAME, path.parent, env=WIDE)

    ours = {line for line in told.splitlines() if "started anew" not in line}
    assert ours - set(again.splitlines()) == set()
    assert again.splitlines()[-1] == told.splitlines()[-1]


def test_the_last_answer_tells_no_more_than_its_request_held(played: tuple[str, Path]) -> None:
    told = played[0]

    assert (
        "crew: We mended the parser and proved it. What came first was left out of what I am shown." in told
    )
    assert told.splitlines()[-1] == "  stenolog request parser --agent crew --at 34 --db crewagent.db"


def test_another_model_on_a_finished_log_tells_the_story_as_it_was_kept(
    played: tuple[str, Path], tmp_path: Path
) -> None:
    first, path = played
    copy(path, tmp_path)

    again = said(NAME, tmp_path, "--model", "cli:cat", env=WIDE)

    assert {line for line in first.splitlines() if line.startswith("crew")} <= set(again.splitlines())


@pytest.mark.slow
def test_a_model_that_cannot_be_started_is_said_at_the_end_and_asked_again_the_next_time(
    played: tuple[str, Path], tmp_path: Path
) -> None:
    code, _, errors = run(NAME, tmp_path, "--model", "cli:nosuchprog")
    finished(NAME, tmp_path)

    assert (code, errors.count("\n")) == (1, 1)
    assert errors.startswith("✗ 1 model call failed: other: nosuchprog could not be started")
    assert outcome(NAME, tmp_path / f"{NAME}.db") == outcome(NAME, played[1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_anywhere_and_started_again_it_ends_the_same(
    played: tuple[str, Path], tmp_path: Path, seed: int
) -> None:
    path = killed(NAME, tmp_path, seed=seed)

    assert outcome(NAME, path) == outcome(NAME, played[1])
    clean(path)


def test_what_was_broken_off_is_gone_on_with_from_the_very_letter(played: tuple[str, Path]) -> None:
    with stenolog.open(played[1]) as log:
        entries = list(log["parser"].entries())
        (cut,) = [entry for entry in entries if isinstance(entry.event, LlmError)]
        parts = [getattr(entry.event, "text", "") for entry in entries[cut.position - 1 : cut.position + 2]]

    assert parts == [
        "One test of 200,001 fails, test_utc: the parser reads the text as local time, and the caller ",
        "continue",
        "takes it for UTC. The zone is lost in parse(), as I thought.",
    ]


def test_the_old_app_takes_the_conversation_and_gives_it_back(
    played: tuple[str, Path], tmp_path: Path
) -> None:
    with stenolog.open(played[1]) as log, stenolog.open(":memory:") as other:
        export_crewagent(log["parser"], tmp_path)
        import_file(other, tmp_path)

        assert [e.event for e in other["parser"].entries()] == [e.event for e in log["parser"].entries()]
        assert other["parser"].request("crew").bytes == log["parser"].request("crew").bytes


def test_it_takes_a_file_of_ones_own(tmp_path: Path) -> None:
    finished(NAME, tmp_path, "--db", "mine.db")

    assert [(tmp_path / name).exists() for name in ("mine.db", f"{NAME}.db")] == [True, False]

"""Several processes on one conversation: each effect is begun once, each message answered once, in order."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Entry, LlmError, ToolResult, UserMessage
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.claims import Claims
from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.adapters.store.sqlite import liveness
from stenolog.adapters.store.sqlite.liveness import LivenessLock
from stenolog.domain.lanes.effects import UNKNOWN
from tests.engine import together
from tests.engine.together import TALK
from tests.engine.workload import Files, lines
from tests.stores import workers

MESSAGES = 4


def entries(files: Files) -> list[Entry]:
    """Return the conversation, found whole."""
    with stenolog.open(files.log) as log:
        assert verify(log).ok
        return [*log[TALK].entries()]


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_that_run_one_conversation_begin_each_effect_once_and_answer_each_message_once_in_order(
    processes: int, tmp_path: Path
) -> None:
    files = Files(tmp_path)

    done = workers.run(processes, together.say_and_run, str(tmp_path), MESSAGES)

    assert done == ["ok"] * processes
    events = [entry.event for entry in entries(files)]
    said = [event.text for event in events if isinstance(event, UserMessage)]
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    told = [event.text.removeprefix("re:") for event in answers if not event.tool_calls]
    assert len(said) == processes * MESSAGES
    assert ",".join(told).split(",") == said
    assert not any(isinstance(event, LlmError) for event in events)
    begun = Counter(key for _, key, *_ in lines(files.models))
    assert (max(begun.values()), begun.total()) == (1, len(answers))
    calls = [call.id for event in answers for call in event.tool_calls]
    ran = Counter(id for what, _, id, _ in lines(files.tools) if what == "start")
    assert ran == Counter(calls)
    assert Counter(event.call_id for event in events if isinstance(event, ToolResult)) == Counter(calls)


@contextmanager
def program(work: Callable[..., None], *args: object) -> Iterator[BaseProcess]:
    """Start a process that does not outlive its test, frozen or not."""
    process = workers.started(work, *args)
    try:
        yield process
    finally:
        process.kill()
        process.join(workers.PATIENCE)


def freeze(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)


def thaw(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)


def until(holds: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    give_up = time.monotonic() + workers.PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return a conversation in which the lane of `slow` has something to answer."""
    files = Files(tmp_path)
    together.say(str(tmp_path), "Begin", "slow")
    return files


def texts(files: Files) -> list[str]:
    """Return the agents' messages, without partial answers."""
    with stenolog.open(files.log) as log:
        events = (entry.event for entry in log[TALK].entries())
        return [event.text for event in events if isinstance(event, AssistantMessage) and event.text]


def drafted(files: Files) -> bool:
    """Return whether something that streamed is kept."""
    with stenolog.open(files.log) as log:
        claims = Claims(log.recorder, log[TALK].stream)
        return any(claims.drafted(claim) for claim in claims.all())


class Frozen:
    """One process is stopped in the middle of an effect: it stands still, and is not dead."""

    waits: bool
    ledger: str

    def is_waiting(self, files: Files) -> bool:
        """Return whether the effect has begun, and all of what it streamed is kept."""
        return (files.folder / "first").exists() and (not self.waits or drafted(files))

    def test_the_other_waits_for_it_works_on_other_lanes_and_goes_on_when_it_is_killed(
        self, files: Files
    ) -> None:
        folder = str(files.folder)
        with program(together.go_on, folder, self.waits) as frozen:
            until(lambda: self.is_waiting(files))
            freeze(frozen)
            with program(together.go_on, folder, self.waits) as other:
                together.say(folder, "And you", "quick")
                until(lambda: texts(files) == ["quick has done it"])
                assert len(lines(files.folder / self.ledger)) == (2 if self.waits else 1)
                assert other.is_alive()

                frozen.kill()

                other.join(workers.PATIENCE)
                assert other.exitcode == 0
        self.check(files)

    def test_one_that_a_person_took_over_from_appends_nothing_when_it_goes_on(self, files: Files) -> None:
        folder = str(files.folder)
        with program(together.go_on, folder, self.waits) as frozen:
            until(lambda: self.is_waiting(files))
            freeze(frozen)
            with stenolog.open(files.log) as log:
                (claim,) = log.claims()
                assert (claim.conversation, claim.lane, claim.pid) == (TALK, "slow", frozen.pid)
                assert claim.alive
                assert log.take_claims(TALK, owner=1) == []
                assert log.take_claims(TALK) == [claim]
                assert [left.alive for left in log.claims()] == [False]
            with program(together.go_on, folder, self.waits) as other:
                other.join(workers.PATIENCE)
                assert other.exitcode == 0
            before = entries(files)
            thaw(frozen)
            files.enough.touch()
            frozen.join(workers.PATIENCE)
            assert frozen.exitcode == 0
        assert entries(files) == before
        self.check(files)

    def check(self, files: Files) -> None:
        raise NotImplementedError


class TestFrozenInAModelCall(Frozen):
    waits = True
    ledger = "models"

    def check(self, files: Files) -> None:
        events = [entry.event for entry in entries(files)]
        cut = [event for event in events if isinstance(event, LlmError)]
        assert [(event.category, event.text) for event in cut] == [("process_exited", "half")]
        assert texts(files).count("slow has done it") == 1


class TestFrozenInATool(Frozen):
    waits = False
    ledger = "tools"

    def check(self, files: Files) -> None:
        events = [entry.event for entry in entries(files)]
        results = [event for event in events if isinstance(event, ToolResult)]
        assert [event.meta for event in results] == [UNKNOWN]
        assert len(lines(files.tools)) == 1
        assert texts(files).count("slow has done it") == 1


del Frozen  # it is no test by itself


@pytest.mark.about_file("PostgreSQL has a lease for each process")
class TestPresence:
    """Whether a runner lives is seen from a lock on a file of its own."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        """Return a log without anything beside it."""
        stenolog.open(tmp_path / "log.db").close()
        (tmp_path / "log.db-lock").unlink()
        (tmp_path / "log.db-checkpoints").unlink(missing_ok=True)
        return str(tmp_path / "log.db")

    def test_a_runner_that_begins_beside_others_leaves_their_locks_alone(
        self, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runners = [LivenessLock(file, "one")]
        monkeypatch.setattr(liveness, "_SWEPT", set())
        runners.append(LivenessLock(file, "two"))
        owners = [runner.owner for runner in runners]

        (alive,) = workers.run(1, together.alive, file, [*owners, "three"])

        assert alive == owners
        for runner in runners:
            runner.close()
        assert [path.name for path in tmp_path.iterdir()] == ["log.db"]

    def test_a_file_is_the_same_by_another_name(self, file: str, tmp_path: Path) -> None:
        os.symlink(tmp_path, tmp_path / "link")
        runner = LivenessLock(file, "one")

        (alive,) = workers.run(1, together.alive, str(tmp_path / "link" / "log.db"), [runner.owner])

        assert alive == [runner.owner]
        runner.close()

    def test_one_whose_file_is_read_or_copied_in_its_own_process_stays_alive(self, file: str) -> None:
        runner = LivenessLock(file, "one")
        Path(f"{file}-runner-one").read_bytes()

        (alive,) = workers.run(1, together.alive, file, [runner.owner])

        assert alive == [runner.owner]
        runner.close()

    def test_one_whose_file_was_removed_stays_alive_while_its_process_is(self, file: str) -> None:
        receiver, sender = workers.CONTEXT.Pipe(duplex=False)
        with program(together.live, file, sender) as living:
            assert receiver.poll(workers.PATIENCE)
            owner = receiver.recv()
            Path(f"{file}-runner-one").unlink()
            freeze(living)

            assert workers.run(1, together.alive, file, [owner]) == [[owner]]
            living.kill()
            living.join(workers.PATIENCE)
            assert workers.run(1, together.alive, file, [owner]) == [[]]

    def test_in_a_copy_of_the_log_the_runners_of_the_other_one_are_dead(self, file: str) -> None:
        runner = LivenessLock(file, "one")
        shutil.copy(file, f"{file}.copy")

        assert workers.run(1, together.alive, f"{file}.copy", [runner.owner]) == [[]]
        runner.close()

    def test_one_that_ends_and_leaves_claims_behind_is_dead_though_its_process_lives(self, file: str) -> None:
        runner = LivenessLock(file, "one")
        runner.close(keep=True)

        assert workers.run(1, together.alive, file, [runner.owner]) == [[]]
        assert not liveness.owner_lives(file, runner.owner)

    def test_a_fork_of_the_process_does_not_keep_a_dead_runner_alive(self, file: str) -> None:
        receiver, sender = workers.CONTEXT.Pipe(duplex=False)
        with program(together.fork_and_live, file, sender) as parent:
            assert receiver.poll(workers.PATIENCE)
            owner, child = receiver.recv()
            try:
                assert workers.run(1, together.alive, file, [owner]) == [[owner]]
                parent.kill()
                parent.join(workers.PATIENCE)
                assert workers.run(1, together.alive, file, [owner]) == [[]]
            finally:
                os.kill(child, signal.SIGKILL)

    def test_a_fork_that_closes_what_it_inherited_closes_nothing_of_its_own(self, file: str) -> None:
        assert workers.run(1, together.close_after_a_fork, file) == ["ok"]

    def test_what_the_dead_left_goes_when_a_program_first_runs_unless_they_have_claims(
        self, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("dead", "owner"):
            (tmp_path / f"log.db-runner-{name}").touch()
        monkeypatch.setattr(liveness, "_SWEPT", set())

        runner = LivenessLock(file, "one", claimed=lambda: [str(Owner("owner", "here", 1))])

        names = {"log.db", "log.db-runner-one", "log.db-runner-owner"}
        assert {path.name for path in tmp_path.iterdir()} == names
        runner.forget("owner")
        runner.close()
        assert [path.name for path in tmp_path.iterdir()] == ["log.db"]

    @pytest.mark.parametrize("owner", ["../../log.db", "a/b", "a\0b", "", "one here 1 2"])
    def test_an_owner_that_somebody_made_up_is_dead_and_touches_no_file(self, owner: str, file: str) -> None:
        runner = LivenessLock(file, "one")
        runner.forget(owner)

        assert not runner.lives(owner)
        runner.close()


@pytest.mark.parametrize("_", range(3))
def test_eight_writers_at_once_lose_no_word(_: int, tmp_path: Path) -> None:
    files = Files(tmp_path)

    together.write(str(tmp_path), 1)

    assert together.lost_words(files) == []

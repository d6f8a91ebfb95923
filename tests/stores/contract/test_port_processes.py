"""What a store promises to several processes: nothing is lost or done twice, and a kill loses nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from itertools import chain

from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import LAST, Share, Stream, Which
from tests.stores import workers

from . import processes
from .given import item, key_of, positions, put, taken
from .inspecting import faults
from .stores import Store, several_processes

pytestmark = several_processes
PROCESSES = 3


def test_of_appends_by_several_processes_none_is_lost_or_written_twice(
    recorder: LogRecorder, store: Store
) -> None:
    found = workers.run(PROCESSES, processes.append, store.env, 15)

    assert sorted(chain.from_iterable(found)) == [*range(2, 2 + PROCESSES * 15)]
    assert all(each == sorted(each) for each in found)
    assert faults(recorder) == []


def test_of_several_that_expect_one_position_one_has_it(recorder: LogRecorder, store: Store) -> None:
    put(recorder, Stream("demo"), "a")
    found = workers.run(PROCESSES, processes.append_at_the_head, store.env, 8)

    assert sorted(chain.from_iterable(found)) == [*range(3, 3 + PROCESSES * 8)]
    assert faults(recorder) == []


def test_an_id_that_several_processes_append_is_written_once(recorder: LogRecorder, store: Store) -> None:
    first, *others = workers.run(PROCESSES, processes.append_the_same, store.env, 12)

    assert all(each == first for each in others)
    assert sorted(first) == [*range(2, 14)]
    assert positions(recorder, "demo") == [*range(1, 14)]


def test_each_claim_is_had_by_one_process(recorder: LogRecorder, store: Store) -> None:
    put(recorder, Stream("demo"), "a")
    found = workers.run(PROCESSES, processes.take_claims, store.env, 20)

    assert sorted(chain.from_iterable(found)) == [*range(20)]
    assert len(recorder.claims.everywhere()) == 20


def test_a_claim_is_taken_over_and_settled_by_one_process(recorder: LogRecorder, store: Store) -> None:
    demo = Stream("demo")
    put(recorder, demo, "a")
    held = taken(recorder, demo)
    recorder.drafts.add([(held.fence, b"said")])
    found = workers.run(PROCESSES, processes.take_over, store.env)

    # Whoever comes late finds another claim, or none, and may take that over: each settles its own.
    assert True in found
    assert recorder.head(demo).position == 2 + sum(each is True for each in found)
    assert recorder.claims.of(demo) == []
    assert recorder.drafts.of(held.fence) == []


def test_forks_of_several_processes_get_names_of_their_own(recorder: LogRecorder, store: Store) -> None:
    put(recorder, Stream("demo"), "a")
    found = workers.run(PROCESSES, processes.fork_often, store.env, 6)

    names = sorted(chain.from_iterable(found))
    assert names == sorted(f"demo~{number}" for number in range(1, 1 + PROCESSES * 6))
    assert faults(recorder) == []


def test_a_new_log_may_be_opened_by_several_at_once(store: Store) -> None:
    found = workers.run(PROCESSES, processes.open_new, store.env)
    recorder = store.open()

    assert found == [2] * PROCESSES
    assert recorder.conversations.names(Which(), order="a-z") == [
        f"talk {number}" for number in range(PROCESSES)
    ]
    assert faults(recorder) == []


def test_whoever_listens_is_woken_by_the_commits_of_another_process(store: Store) -> None:
    store.open()

    assert workers.run(2, processes.listen, store.env, 6) == [6, 6]


def test_a_process_that_is_killed_loses_nothing_that_it_acknowledged(
    recorder: LogRecorder, store: Store
) -> None:
    chance, acknowledged = random.Random(7), list[int]()
    for _ in range(4):
        receiver, sender = workers.CONTEXT.Pipe(duplex=False)
        process = workers.started(processes.append_until_killed, store.env, sender)
        sender.close()
        with os.fdopen(os.dup(receiver.fileno())) as lines:
            acknowledged.append(int(lines.readline()))
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process.pid or 0, signal.SIGKILL)
            acknowledged += map(int, (line for line in lines if line.endswith("\n")))
        process.join(workers.PATIENCE)

    stored = positions(recorder, "demo")
    assert stored == [*range(1, len(stored) + 1)]
    assert {*acknowledged} <= {*stored}
    assert len(acknowledged) == len({*acknowledged}) > 4
    assert faults(recorder) == []
    assert put(recorder, Stream("demo"), "and on") == [len(stored) + 1]
    key = key_of(recorder, Stream("demo"))
    assert recorder.insert_batch([Share(Stream("demo", key), [item("x")], len(stored) + 1)], [])
    assert recorder.last_committed(LAST)[0] == recorder.max_notification_id()

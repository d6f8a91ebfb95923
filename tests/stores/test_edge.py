"""Ids and salts are random, however many are drawn at once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from stenolog.adapters.store import appends
from stenolog.adapters.store.appends import DRAWN, Sources, new_id, random_bytes


def test_no_two_are_the_same_even_where_threads_draw_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [id for some in pool.map(lambda _: [new_id() for _ in range(1000)], range(8)) for id in some]

    assert len(set(ids)) == len(ids) == 8000
    assert {len(id) for id in ids} == {16}


@pytest.mark.parametrize("number", [0, 1, DRAWN, DRAWN + 1, 100])
def test_there_are_as_many_bytes_as_were_asked_for(number: int) -> None:
    assert len(random_bytes(number)) == number


def test_salts_of_an_edge_differ() -> None:
    sources = Sources()

    assert len({sources.salt() for _ in range(1000)}) == 1000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_process_that_forks_gives_none_of_its_own_to_its_child() -> None:
    code = (
        "import os; from stenolog.adapters.store.appends import new_id\n"
        "new_id(); child = os.fork(); os.write(1, f'{new_id()} '.encode())\n"
        "if child: os.waitpid(child, 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert len(set(found.stdout.split())) == 2


def test_nor_does_one_that_was_copied_without_a_word_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [new_id() for _ in range(3)]
    left = list(appends._pools[os.getpid()])
    monkeypatch.setattr(os, "getpid", lambda: -1)
    theirs = [random_bytes(DRAWN) for _ in range(1000)]

    assert not {*theirs} & {*left}
    assert len({*mine, *(some.hex()[:16] for some in theirs)}) == 1003

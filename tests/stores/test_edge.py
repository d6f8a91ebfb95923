"""Ids and salts differ, whichever thread or process draws them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from stenolog.adapters.store.contract.appends import Sources, new_id


def test_no_two_are_the_same_even_where_threads_draw_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [id for some in pool.map(lambda _: [new_id() for _ in range(1000)], range(8)) for id in some]

    assert len(set(ids)) == len(ids) == 8000
    assert {len(id) for id in ids} == {16}


def test_ids_of_a_process_are_in_order_so_that_an_index_grows_at_its_end() -> None:
    ids = [new_id() for _ in range(1000)]

    assert ids == sorted(ids)


def test_from_an_id_nobody_can_tell_the_next() -> None:
    numbers = [int(new_id(), 16) for _ in range(1000)]

    assert len({later - earlier for earlier, later in pairwise(numbers)}) > 990


def test_salts_of_an_edge_differ() -> None:
    sources = Sources()

    assert len({sources.salt() for _ in range(1000)}) == 1000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_process_that_forks_gives_none_of_its_own_to_its_child() -> None:
    code = (
        "import os; from stenolog.adapters.store.contract.appends import new_id\n"
        "new_id(); child = os.fork(); os.write(1, f'{new_id()} '.encode())\n"
        "if child: os.waitpid(child, 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert len(set(found.stdout.split())) == 2

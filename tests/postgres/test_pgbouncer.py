"""A log behind pgbouncer, which gives each transaction any session: nothing may hang on a session."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

import stenolog
from stenolog import AssistantMessage, Team, UserMessage
from stenolog.engine import Agent
from stenolog.errors import StenologError
from stenolog.maintenance import verify
from stenolog.models import Scripted
from tests.postgres.load import PATIENCE
from tests.postgres.server import Server, server_user

pytestmark = pytest.mark.slow
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SESSIONS = 3
"""Sessions that the pooler has on the server: fewer than there are clients."""
CONFIG = """[databases]
* = host={server} user=tests
[pgbouncer]
unix_socket_dir = {folder}
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
pidfile = {folder}/pid
logfile = {folder}/log
"""


@contextmanager
def pooled(server: Server) -> Iterator[str]:
    """Run pgbouncer before a server; yield the folder of its socket."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    user = server_user()  # it refuses to run as root, as a server does
    with tempfile.TemporaryDirectory(prefix="pool") as folder:
        config = Path(folder, "pgbouncer.ini")
        config.write_text(CONFIG.format(server=server.folder, folder=folder, sessions=SESSIONS))
        if user:
            shutil.chown(folder, user)
            os.chmod(folder, 0o755)
        running = subprocess.Popen(
            [PROGRAM, "-q", config], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, user=user
        )
        try:
            give_up = time.monotonic() + PATIENCE
            while not Path(folder, ".s.PGSQL.5432").exists():
                assert running.poll() is None, running.communicate()[1]
                assert time.monotonic() < give_up
                time.sleep(0.02)
            yield folder
        finally:
            running.terminate()
            running.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def folder(postgres: Callable[[str], Server]) -> Iterator[str]:
    with pooled(postgres("postgres 15")) as folder:
        yield folder


@pytest.fixture
def direct(postgres: Callable[[str], Server]) -> Iterator[str]:
    with postgres("postgres 15").schema() as address:
        yield address


def behind(folder: str, direct: str, **options: str) -> str:
    """Return the address of a log behind the pooler."""
    schema = direct.rpartition("schema=")[2]
    return f"postgresql://tests@/postgres?{urlencode({'host': folder, 'schema': schema, **options})}"


def write(address: str, number: int) -> None:
    """Append, fork and read back, as one of several processes."""
    with stenolog.open(address) as log:
        mine = log[f"talk {number}"]
        for n in range(25):
            mine.append(UserMessage(text=f"{number}/{n}"))
            log["shared"].append(UserMessage(text=f"{number}/{n}"))
        mine.fork(after=2)
        assert len(mine) == 26


@pytest.mark.parametrize("notified", ["listen", "looks"])
def test_writers_behind_a_pooler_share_a_log_and_its_tail(folder: str, direct: str, notified: str) -> None:
    options = {"listen": direct} if notified == "listen" else {"notify": "off"}
    address = behind(folder, direct, pooled="on", **options)
    seen: list[str] = []

    def follow() -> None:
        for entry in log["shared"].tail():
            if isinstance(entry.event, UserMessage):
                seen.append(entry.event.text)
            if len(seen) == 100:
                return

    with stenolog.open(address) as log:
        follower = threading.Thread(target=follow)
        follower.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: write(address, number), range(4)))
        follower.join(PATIENCE)
        report = verify(log)

    assert report.ok, report.problems
    assert sorted(seen) == sorted(f"{number}/{n}" for number in range(4) for n in range(25))


def test_a_team_runs_behind_a_pooler(folder: str, direct: str) -> None:
    async def main() -> None:
        with stenolog.open(behind(folder, direct, pooled="on", listen=direct)) as log:
            async with Team([Agent("coder", llm=Scripted("Hello.", piece=1))]) as team:
                async for _ in team.run(log["demo"], "Hi"):
                    pass

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    with stenolog.open(direct) as log:
        assert [e.event.text for e in log["demo"] if isinstance(e.event, AssistantMessage)] == ["Hello."]
        assert log.claims() == []


def test_without_the_option_statements_are_looked_for_in_sessions_that_do_not_know_them(
    folder: str, direct: str
) -> None:
    address = behind(folder, direct, notify="off")

    with ThreadPoolExecutor(4) as pool:
        told = [pool.submit(write, address, number) for number in range(4)]
        errors = [each.exception(PATIENCE) for each in told]
    assert any(isinstance(error, StenologError) for error in errors)

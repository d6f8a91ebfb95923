"""What is submitted is in the log and wakes a worker, in one transaction, and is said once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

import stenolog
from stenolog import Agent, Team, UserMessage
from stenolog.apps.serve.service import Service
from stenolog.apps.workers.submitting import waking
from stenolog.errors import AgentNotFoundError, CallerError, DuplicateIdError, OperationalError, StoreError
from stenolog.models import Scripted
from stenolog.tools import tool
from stenolog.workers import approve, cancel, reject, submit, submit_sync
from tests.engine.given import call
from tests.postgres.cutting_proxy import cutting
from tests.postgres.server import Server
from tests.postgres.test_roles import SNIPPETS, adapted
from tests.workers.given import answering, jobs, jobs_dropped, schema_of, texts, until, working


@tool(approval=True)
def deploy() -> str:
    """Deploy."""
    return "deployed"


def deploying(*answers: str) -> Team:
    """Return a team whose agent deploys, which a person has to approve."""
    return Team([Agent("coder", llm=Scripted(call("deploy"), *answers), tools=[deploy])])


async def test_a_worker_answers_what_was_submitted(address: str) -> None:
    with stenolog.open(address) as log:
        async with working(log, answering("A cat.", "A dog.")):
            first = await submit(log["demo"], "What is it?")
            await until(lambda: "A cat." in texts(log["demo"]))
            second = await submit(log["demo"], "And this?")
            await until(lambda: "A dog." in texts(log["demo"]))

        assert texts(log["demo"]) == ["What is it?", "A cat.", "And this?", "A dog."]
        said = [log["demo"].entry(position).event for position in (first, second)]
        assert said == [UserMessage("What is it?"), UserMessage("And this?")]


@pytest.mark.parametrize("method", ["append", "submit"])
async def test_what_other_languages_say_through_a_server_wakes_a_worker(address: str, method: str) -> None:
    said = {"kind": "user_message", "event": {"text": "And this?"}}
    with stenolog.open(address) as log, stenolog.open(address) as elsewhere:
        async with working(log, answering("A cat.", "A dog.")):
            await submit(log["demo"], "What is it?")
            await until(lambda: "A cat." in texts(log["demo"]))
            service = Service(elsewhere, wake=waking)
            given = {"conversation": "demo", **({"events": [said]} if method == "append" else said)}
            await asyncio.to_thread(service.call, method, json.dumps(given).encode())
            await until(lambda: "A dog." in texts(log["demo"]))
            service.close()


async def test_what_was_submitted_before_a_worker_began_is_answered(address: str) -> None:
    with stenolog.open(address) as log:
        for name in ("one", "two"):
            submit_sync(log[name], "What is it?")
        async with working(log, answering("A cat.", "A cat.")):
            await until(lambda: all("A cat." in texts(log[name]) for name in ("one", "two")))


async def test_a_message_with_an_id_is_said_once_and_answered_once(address: str) -> None:
    with stenolog.open(address) as log:
        positions = [await submit(log["demo"], "What is it?", id="m-1") for _ in range(2)]
        async with working(log, answering("A cat.", "Another one.")):
            await until(lambda: "A cat." in texts(log["demo"]))
            positions.append(await submit(log["demo"], "What is it?", id="m-1"))
            with pytest.raises(DuplicateIdError):
                await submit(log["demo"], "What else?", id="m-1")

        assert len(set(positions)) == 1
        assert texts(log["demo"]) == ["What is it?", "A cat."]


async def test_an_approval_wakes_a_worker_that_runs_the_call(address: str) -> None:
    with stenolog.open(address) as log:
        async with working(log, team := deploying("Done.")) as worker:
            await submit(log["demo"], "Deploy it.")
            await until(lambda: log["demo"].state().open_calls() and not worker.doing)
            (waiting,) = await team.pending_approvals(log["demo"])
            await approve(log["demo"], waiting.call)
            await until(lambda: "Done." in texts(log["demo"]))


async def test_a_refusal_wakes_a_worker_whose_agent_sees_it(address: str) -> None:
    with stenolog.open(address) as log:
        async with working(log, team := deploying("Then not.")):
            await submit(log["demo"], "Deploy it.")
            await until(lambda: log["demo"].state().open_calls())
            (waiting,) = await team.pending_approvals(log["demo"])
            await reject(log["demo"], waiting.call)
            await until(lambda: "Then not." in texts(log["demo"]))


async def test_a_command_to_cancel_stops_a_worker_within_half_a_second(address: str) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return "waited"

    team = Team([Agent("coder", llm=Scripted(call("wait")), tools=[wait])])
    with stenolog.open(address) as log, stenolog.open(address) as elsewhere:
        async with working(log, team) as worker:
            await submit(elsewhere["demo"], "Wait.")
            await asyncio.wait_for(begun.wait(), 20)
            await cancel(elsewhere["demo"])

            assert await until(lambda: not worker.doing) < 0.5


async def test_a_name_that_nobody_has_is_refused_once_a_team_has_worked(address: str) -> None:
    with stenolog.open(address) as log:
        await submit(log["demo"], "What is it?", to="coder")
        async with working(log, answering("A cat.")):
            await until(lambda: "A cat." in texts(log["demo"]))
        with pytest.raises(AgentNotFoundError):
            await submit(log["demo"], "And this?", to="codr")


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_no_queue_can_have_is_refused(server_log: str, name: str) -> None:
    with stenolog.open(server_log) as log, pytest.raises(CallerError, match="team: expected a name"):
        submit_sync(log["demo"], "What is it?", team=name)


def test_a_job_has_keys_alone_and_nothing_that_somebody_chose(
    postgres: Callable[[str], Server], server_log: str
) -> None:
    with stenolog.open(server_log) as log:
        submit_sync(log["größe 'x' \\ %s"], "What is it?")
        key = log["größe 'x' \\ %s"].key

    (job,) = jobs(postgres("postgres 15"), server_log)
    assert (job["args"], job["lock"], job["queueing_lock"]) == ({"key": key, "team": "team"}, str(key), None)


def test_an_append_whose_wake_up_cannot_be_written_is_not_written(
    postgres: Callable[[str], Server], server_log: str
) -> None:
    with stenolog.open(server_log) as log:
        demo = log["demo"]
        # The first looks at the log; the next one knows where it stands, and makes one statement.
        for _ in range(3):
            submit_sync(demo, "What is it?")
        before = demo.position
        jobs_dropped(postgres("postgres 15"), server_log)
        for conversation in (demo, log["new"]):
            with pytest.raises(StoreError):
                submit_sync(conversation, "And this?")

        assert log["demo"].position == before
        assert "new" not in log


def test_a_repeated_submit_leaves_no_second_wake_up(
    postgres: Callable[[str], Server], server_log: str
) -> None:
    with stenolog.open(server_log) as log:
        for _ in range(3):
            submit_sync(log["demo"], "What is it?", id="m-1")

    assert len(jobs(postgres("postgres 15"), server_log)) == 1


# Connections that are cut while something is submitted: a message and its wake-up are there once.


MESSAGES = 40
CUTS = 30


@pytest.mark.slow
def test_a_message_and_its_wake_up_are_there_once_though_answers_are_lost(
    postgres: Callable[[str], Server], server_log: str
) -> None:
    server = postgres("postgres 15")
    with stenolog.open(server_log) as log:
        submit_sync(log["demo"], "The first.", id="m-0")
    with cutting(server.folder, CUTS) as proxy:
        through = server._replace(folder=proxy.folder).address(schema=schema_of(server_log))
        for number in range(1, MESSAGES):
            submitted(through, number)
        assert proxy.cuts >= CUTS // 2
    with stenolog.open(server_log) as log:
        messages = [entry.id for entry in log["demo"] if isinstance(entry.event, UserMessage)]

    assert messages == [f"m-{number}" for number in range(MESSAGES)]
    assert len(jobs(server, server_log)) == MESSAGES


def submitted(address: str, number: int) -> None:
    """Submit a message, however often it takes."""
    while True:
        with suppress(OperationalError), stenolog.open(address) as log:
            submit_sync(log["demo"], f"Message {number}", id=f"m-{number}")
            return


# The rights that the page gives writers on the tables of the jobs: they submit, and work.


async def test_a_writer_submits_and_works_with_the_rights_of_the_page(
    postgres: Callable[[str], Server],
) -> None:
    server = postgres("postgres 15")
    with server.schema() as address:
        schema = schema_of(address)
        owner, writer = (address.replace("tests@", f"{role}_{schema}@") for role in ("owner", "writer"))
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(adapted(SNIPPETS[0], schema).encode())
            with stenolog.open(owner) as log:
                # The tables of the jobs are the owner's, made by the first that submits.
                await submit(log["first"], "What is it?")
            connection.execute(adapted(SNIPPETS[1], schema).encode())
            connection.execute(
                f"GRANT USAGE ON SCHEMA {schema}_jobs TO writer_{schema};"
                f"GRANT ALL ON ALL TABLES IN SCHEMA {schema}_jobs TO writer_{schema};"
                f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema}_jobs TO writer_{schema}".encode()
            )
            try:
                with stenolog.open(writer) as log:
                    async with working(log, answering("A cat.", "A cat.")):
                        await submit(log["second"], "What is it?")
                        await until(lambda: "A cat." in texts(log["first"]))
                        await until(lambda: "A cat." in texts(log["second"]))
            finally:
                jobs_dropped(server, address)
                for role in ("owner", "writer"):
                    connection.execute(
                        f"DROP OWNED BY {role}_{schema} CASCADE; DROP ROLE {role}_{schema}".encode()
                    )

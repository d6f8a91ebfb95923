"""The rights that the page gives writers on the tables of the jobs: they submit, and work."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

import stenolog
from stenolog.workers import submit
from tests.postgres.server import Server
from tests.postgres.test_roles import SNIPPETS, adapted
from tests.workers.given import answering, jobs_dropped, schema_of, texts, until, working


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

"""A report in, eight mails out: python -m examples.stakeholder_mail, and again to go on from the log."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import stenolog
from stenolog import Agent, Conversation, Log, Team
from stenolog.adapters.cli.prices import prices_of
from stenolog.engine import Recording, regenerate
from stenolog.models import Model, model_of
from stenolog.tables import Kept

from . import show
from .crew import agents, team
from .script import scripted
from .tables import tables
from .workflow import TALK, answer_to, answers, mails, plan, quality_of, said, write

SCORES = "SELECT workflow, mail, score, words, text FROM stakeholder_mails ORDER BY mail, workflow"
QUESTION = "How many mails speak of the outages?"
PRICES = Path(__file__).with_name("prices.toml")
print = show.console.print


def main() -> None:
    """What was asked for; without options, everything in short."""
    given = _options()
    with stenolog.open(given.db) as log:
        sql, model = tables(log), model_of(given.model) if given.model else scripted()
        asyncio.run(do(given, log, sql, model))


async def do(given: argparse.Namespace, log: Log, sql: Kept, model: Model) -> None:
    """The mails, from wherever they stand, and then what is wanted of them."""
    talk, crew, prices = log[TALK], agents(model), prices_of(given.prices)
    writer = crew[-1]
    async with team(crew) as working:
        await show.bars(plan(talk, working))
        show.estimate(talk, prices)
        await show.bars(write(talk, working))
        everything = not any((given.replay, given.regenerate, given.fork, given.ask, given.sql))
        if wished := given.regenerate or (everything and ("3", "Shorter, please.")):
            await anew(talk, writer, *wished, in_place=True)
        if wished := given.fork or (everything and ("5", "Warmer, please.")):
            await anew(talk, writer, *wished, in_place=False)
        if question := given.ask or (everything and QUESTION):
            await ask(talk, working, question)
        if given.replay or everything:
            print(await replayed(talk, crew))
    if given.sql or everything:
        query = given.sql or SCORES
        print(query, style="bold", markup=False)
        show.table((), sql.select(query))
    show.account(log, prices)


async def anew(talk: Conversation, writer: Agent, number: str, wish: str, *, in_place: bool) -> None:
    """One mail, made anew with a wish: in the place of the old one, or in a fork that shares all before."""
    first = next(entry for entry in answers(talk) if said(entry).task == f"mail-{number}")
    entry = await regenerate(talk, first.position, writer, wish, in_place=in_place)
    where = f"in the place of {first.position}" if in_place else f"in a fork, {entry.conversation}"
    quality = quality_of(said(entry))
    print(wish, style="bold", markup=False)
    print(f"mail {number}, {where}: {quality['words']} words, quality {quality['score']:.0%}")


async def ask(talk: Conversation, working: Team, question: str) -> None:
    """A follow-up question: asked once, however often we are started."""
    id = f"ask: {question}"[:200].strip()
    await working.ask(talk, question, id=id)
    print(question, style="bold", markup=False)
    print(said(answer_to(talk, id)).text, markup=False)


async def replayed(talk: Conversation, crew: list[Agent]) -> str:
    """The whole workflow once more, in memory, without a model: the log answers in its place."""
    recording = Recording(talk, upto=answer_to(talk, "done").position)
    with stenolog.open(":memory:") as log:
        again = team([recording.agent(agent) for agent in crew])
        for part in (plan, write):
            async for _ in part(log[TALK], again):
                pass
        same = [said(mail).text for mail in mails(log[TALK]).values()]
    return f"replayed without a model: {len(same)} mails, {recording.left} calls left over"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.stakeholder_mail", description=__doc__)
    parser.add_argument("--db", default="stakeholder_mail.db", help="the log; a second start goes on from it")
    parser.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    parser.add_argument("--prices", type=Path, default=PRICES, help="what models cost: change prices.toml")
    parser.add_argument("--regenerate", nargs=2, metavar=("N", "WISH"), help="mail N anew, in its place")
    parser.add_argument("--fork", nargs=2, metavar=("N", "WISH"), help="mail N anew, in a fork")
    parser.add_argument("--ask", metavar="QUESTION", help="a follow-up question")
    parser.add_argument("--replay", action="store_true", help="the workflow again, without a model")
    parser.add_argument("--sql", metavar="QUERY", help="on conversation_messages and stakeholder_mails")
    return parser.parse_args()


if __name__ == "__main__":
    main()

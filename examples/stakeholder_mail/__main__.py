"""A report in, eight mails out: python -m examples.stakeholder_mail, and again to go on from the log."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import stenolog
from stenolog import Agent, Conversation, Log, Team
from stenolog.analysis import Prices, prices_of
from stenolog.engine import Replay, regenerate
from stenolog.errors import CallerError, ModelError, ReplayMismatchError
from stenolog.models import Model, model_from_string

from ..shell import run
from . import show
from .crew import agents, team
from .script import scripted
from .tables import answer, answer_of_server, tables
from .workflow import TALK, answer_to, drafts, mails, once, plan, reviews, said, without_context, write

SCORES = """SELECT workflow, mail, score, words, text FROM stakeholder_mails LEFT JOIN mail_scores
    USING (workflow, mail) ORDER BY mail, workflow"""
FORKS = (
    "email_writer~… is the fork in which a mail was made anew: it shares all that came before it. The new "
    "mail 3 then took the place of the old one in october, too; the new mail 5 stands beside it."
)
QUESTION = "How many mails speak of the outages?"
PRICES = Path(__file__).with_name("prices.toml")
print = show.console.print


def main() -> None:
    """Do what the options ask for; without options, everything in short."""
    given = _options()
    model, prices = model_from_string(given.model) if given.model else scripted(), prices_of(given.prices)
    with stenolog.open(given.db) as log:
        if not given.tables:
            tables(log)
        asyncio.run(do(given, log, model, prices))


async def do(given: argparse.Namespace, log: Log, model: Model, prices: Prices) -> None:
    """Write the mails, from where the log ends, and then do what the options ask for."""
    conversation, crew = log[TALK], agents(model)
    writer = next(agent for agent in crew if agent.name == "email_writer")
    async with team(crew) as working:
        await show.bars(plan(conversation, working))
        show.estimate(conversation, prices)
        await show.bars(write(conversation, working))
        show.spent(conversation, prices)
        everything = not any(
            (given.replay, given.regenerate, given.fork, given.ask, given.sql, given.compare)
        )
        if wished := given.regenerate or (everything and ("3", "Shorter, please.")):
            await anew(conversation, writer, *wished, in_place=True)
            once(conversation, reviews(conversation))
            await show.bars(working.run(conversation))
        if wished := given.fork or (everything and ("5", "Warmer, please.")):
            await anew(conversation, writer, *wished, in_place=False)
        if given.compare or everything:
            alone = without_context(log)
            async with team(agents(model, context=False)) as stateless:
                await show.bars(drafts(alone, stateless))
            show.compared(conversation, alone)
        if question := given.ask or (everything and QUESTION):
            await ask(conversation, working, question)
        if given.replay or everything:
            print(await replayed(conversation, crew), markup=False)
    if given.sql or everything:
        query = given.sql or SCORES
        print(query, style="bold", markup=False)
        show.table(*(answer_of_server(log, given.tables, query) if given.tables else answer(given.db, query)))
    if everything:
        print(FORKS, markup=False)
    show.account(log, prices)


async def anew(conversation: Conversation, writer: Agent, number: str, wish: str, *, in_place: bool) -> None:
    """Regenerate one mail with a wish: in place of the old one, or in a fork that shares all before."""
    there = mails(conversation, anew=False).get(f"mail-{number}")
    if there is None:
        raise CallerError(
            f"expected the number of a mail, 1 to {len(mails(conversation))}; found {number!r:.40}"
        )
    entry = await regenerate(conversation, there.position, writer, wish, in_place=in_place)
    where = f"in the place of {there.position}" if in_place else f"in a fork, {entry.conversation}"
    print(f"user → email_writer/mail-{number}: {wish}", style="bold", markup=False)
    print(f"mail {number}, {where}: {len(said(entry).text.split())} words")


async def ask(conversation: Conversation, working: Team, question: str) -> None:
    """Ask a follow-up question, once, however often the program is started."""
    id = f"ask: {question}"[:200].strip()
    await working.ask(conversation, question, id=id)
    print(f"user: {question}", style="bold", markup=False)
    print(f"orchestrator: {said(answer_to(conversation, id)).text}", markup=False)


async def replayed(conversation: Conversation, crew: list[Agent]) -> str:
    """Return the whole workflow once more, in memory, without a model: the log answers in its place."""
    recording = Replay(conversation, at=answer_to(conversation, "done").position)
    with stenolog.open(":memory:") as log:
        again = team([recording.agent(agent) for agent in crew])
        try:
            for part in (plan, write):
                async for _ in part(log[TALK], again):
                    pass
        except (
            ReplayMismatchError,
            ModelError,
        ) as error:  # a model has failed then, or another one is asked now
            return f"cannot be replayed: {error}"
        same = [said(mail).text for mail in mails(log[TALK]).values()]
    return f"replayed without a model: {len(same)} mails, {recording.remaining} calls left over"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.stakeholder_mail", description=__doc__)
    parser.add_argument("--db", default="stakeholder_mail.db", help="the log; a second start goes on from it")
    parser.add_argument(
        "--tables", metavar="DSN", help="a database in PostgreSQL for the tables, as the log may be there"
    )
    parser.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    parser.add_argument("--prices", type=Path, default=PRICES, help="what models cost: change prices.toml")
    parser.add_argument("--regenerate", nargs=2, metavar=("N", "WISH"), help="mail N anew, in its place")
    parser.add_argument("--fork", nargs=2, metavar=("N", "WISH"), help="mail N anew, in a fork")
    parser.add_argument("--ask", metavar="QUESTION", help="a follow-up question")
    parser.add_argument("--compare", action="store_true", help="the mails once more, by their briefs alone")
    parser.add_argument("--replay", action="store_true", help="the workflow again, without a model")
    parser.add_argument(
        "--sql", metavar="QUERY", help="on conversation_messages, stakeholder_mails, mail_scores"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run(main)

"""python -m examples.worker_agent: five conversations in one log, each worked to its end, then shown."""

from __future__ import annotations

import argparse
import asyncio

import stenolog
from stenolog import CallerError, Log
from stenolog.engine import Limits
from stenolog.models import Model, model_of

from . import crew, report
from .loop import work
from .script import scripted


async def do(log: Log, model: Model) -> None:
    """Bring every conversation to its end, from wherever it stands."""
    questions = "Which files are there?", "How long is the first one?"
    await work(log["remembers"], "coder", model, Limits(), *questions)
    await work(log["stuck"], "stuck", scripted(), Limits(same_call=3), "Look around.")
    await crew.do_review(log["review"], model)
    await crew.do_walk(log["walk"], scripted())
    await crew.do_library(log["library"], model)
    await model.close()


def show(log: Log) -> None:
    """What has come of it."""
    for name in ("remembers", "stuck", "review", "walk"):
        print(*report.table(log[name]), sep="\n")
    print("\n== workers ==", *report.family(log["review"]), sep="\n")
    print("\n== library ==", *report.growth(log["library"]), sep="\n")


def main() -> None:
    """Do it, and show it."""
    options = argparse.ArgumentParser(prog="python -m examples.worker_agent", description=__doc__)
    options.add_argument("--db", default="worker_agent.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    try:
        model = model_of(given.model) if given.model else scripted()
    except CallerError as error:
        options.error(str(error))
    with stenolog.open(given.db) as log:
        asyncio.run(do(log, model))
        show(log)


if __name__ == "__main__":
    main()

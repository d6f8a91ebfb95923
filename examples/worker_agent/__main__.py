"""python -m examples.worker_agent: five conversations in one log, each shown as it is worked to its end."""

from __future__ import annotations

import argparse
import asyncio

import stenolog
from stenolog import Log
from stenolog.engine import Limits
from stenolog.models import Model, model_from_string

from ..ends import command, ended, failures
from ..shell import run
from . import crew, report
from .loop import work
from .outcome import PARTS
from .script import scripted


async def do(log: Log, model: Model) -> None:
    """Bring every conversation to its end, from wherever it stands, and tell of each entry as it comes."""
    questions = "Which files are there?", "How long is the first one?"
    remembers = work(log["remembers"], "coder", model, Limits(), *questions)
    await report.follow(log["remembers"], remembers)
    stuck = work(log["stuck"], "stuck", scripted(), Limits(same_call=3), "Look around.")
    await report.follow(log["stuck"], stuck)
    await report.follow(log["review"], crew.do_review(log["review"], model))
    print(*report.family(log["review"]), sep="\n")
    await report.follow(log["walk"], crew.do_walk(log["walk"], scripted()))
    await report.follow_summaries(log["library"], crew.do_library(log["library"], model))
    await model.close()


def main() -> int:
    """Do it; 1 where a model could not be asked."""
    options = argparse.ArgumentParser(prog="python -m examples.worker_agent", description=__doc__)
    options.add_argument("--db", default="worker_agent.db", help="the log; a second start goes on from it")
    options.add_argument("--model", help="a real one, such as openai:gpt-5.2; its key is in the environment")
    given = options.parse_args()
    model = model_from_string(given.model) if given.model else scripted()
    with stenolog.open(given.db) as log:
        asyncio.run(do(log, model))
        print(
            "\nWhat the last answer was made from:", command(log["remembers"], "coder", given.db), sep="\n  "
        )
        return ended([failed for name in PARTS for failed in failures(log[name])])


if __name__ == "__main__":
    run(main)

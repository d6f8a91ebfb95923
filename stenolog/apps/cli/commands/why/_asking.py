"""Options of commands that ask a model again, and how: nothing is spent before its price is known."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stenolog.apps.cli.arguments.database import Database, file_of
from stenolog.apps.cli.lines import counted
from stenolog.apps.cli.terminal import PLAIN_FILE, Bar, ask, say

if TYPE_CHECKING:
    from stenolog.adapters.asking import Panel
    from stenolog.adapters.conversation.log import Log
    from stenolog.adapters.models.base import Model
    from stenolog.projections.analysis.retry import Estimate, ModelQuestion

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class AskOptions(NamedTuple):
    """The options, by their names; `ask` is None if no model is to be asked."""

    ask: int | None
    budget: float | None
    judge: str
    through: str | None
    answers: Path | None
    confidence: float
    prices: Path | None
    yes: bool

    @property
    def budget_micro_usd(self) -> int | None:
        """The budget in whole micro-dollars."""
        return None if self.budget is None else int(self.budget * 1_000_000)


OPTIONS = (
    click.option("--ask", type=click.IntRange(1), metavar="N", help="Ask the model again, N times each."),
    click.option("--budget", type=click.FloatRange(0), metavar="USD", help="All answers may cost so much."),
    click.option(
        "--judge",
        default="calls",
        metavar="JUDGE",
        help="calls, schema:FILE, MODULE:FUNCTION or model:KIND:NAME.",
    ),
    click.option("--through", metavar="KIND:NAME", help="Who answers in place of the recorded model."),
    click.option("--answers", type=PLAIN_FILE, help="Keep the answers here, not in NAME.answers.db."),
    click.option(
        "--confidence",
        type=click.FloatRange(0.5, 1, max_open=True),
        default=0.95,
        metavar="SHARE",
        help="Default: 0.95.",
    ),
    click.option("--prices", type=PLAIN_FILE, help="Your prices, TOML or JSON."),
    click.option("--yes", is_flag=True, help="Spend without being asked."),
)


def takes_asking(function: F) -> F:
    """Add the options of asking again, given as `asking`."""

    @functools.wraps(function)
    def called(**given: Any) -> Any:
        asking = AskOptions(*(given.pop(name) for name in AskOptions._fields))
        return function(**given, asking=asking)

    for option in reversed(OPTIONS):
        called = option(called)
    return called  # type: ignore[return-value]


class Models:
    """The models that questions are for: the recorded one of each, or `through`; `other` for a variant."""

    def __init__(self, options: AskOptions, other: str | None = None, *, keys: bool = False) -> None:
        self._keys = keys
        self._through = self._model_named(options.through) if options.through else None
        self._other = self._model_named(other) if other else None
        self._made: dict[tuple[str, str], Model] = {}

    def __call__(self, question: ModelQuestion) -> Model:
        """Return the model of a question. Raises `CallerError` if no kind of model speaks its API."""
        if question.variant and self._other is not None:
            return self._other
        if self._through is not None:
            return self._through
        api, name = question.request.api.partition("@")[0], recorded_name(question)
        if (api, name) not in self._made:
            from stenolog.adapters.models.model_names import model_by_api

            self._made[api, name] = model_by_api(api, name, keys=self._keys)
        return self._made[api, name]

    def _model_named(self, written: str) -> Model:
        from stenolog.adapters.models.model_names import model_from_string

        return model_from_string(written, folder=Path.cwd(), keys=self._keys)


def recorded_name(question: ModelQuestion) -> str:
    """Return the model that a request names, else the one that answered it."""
    return str(question.request.body.get("model") or question.case.answer.model)


def answers_file(options: AskOptions, db: Database) -> Path:
    """Return the file of the answers: the one given, or beside the database."""
    if options.answers is not None:
        return options.answers
    file = file_of(db, "give the answers' file, --answers FILE")
    from stenolog.adapters.asking.answers import beside

    return beside(file)


def answers_of(file: Path, *, make: bool) -> AbstractContextManager[Log]:
    """Return the log of the answers; if it is not there and not to be made, an empty one in memory."""
    from stenolog.adapters.conversation.log import open as open_log

    return open_log(file if make or file.exists() else ":memory:")


def ask_panel(
    options: AskOptions,
    db: Database,
    forecast: Callable[[Panel], Estimate],
    work: Callable[[Panel], Awaitable[T]],
    other: str | None = None,
) -> T:
    """Show what asking costs, and ask; `work` does it, and `other` is the model of the variants.

    Raises `click.UsageError` without a budget or a yes, and `CallerError` for a model or a judge.
    """
    from stenolog.adapters.asking import Panel, judge_from
    from stenolog.adapters.providers.prices import prices_of

    file = answers_file(options, db)

    def panel(log: Log, seen: Callable[[object], object], *, keys: bool) -> Panel:
        judge = judge_from(options.judge, Path.cwd(), keys=keys)
        given: dict[str, Any] = {"budget_micro_usd": options.budget_micro_usd or 0, "seen": seen}
        given["via"] = options.through or ""
        prices = prices_of(options.prices)
        return Panel(Models(options, other, keys=keys), log, judge=judge, prices=prices, **given)

    with answers_of(file, make=False) as log:
        estimate = forecast(panel(log, lambda reply: None, keys=False))
        _agree(options, estimate)
        if estimate.calls:  # a missing key is said before the answers' file is made
            forecast(panel(log, lambda reply: None, keys=True))
    with answers_of(file, make=True) as log, Bar("asking", estimate.calls + estimate.kept) as bar:
        done = iter(range(1, sys.maxsize))

        async def main() -> T:
            async with panel(log, lambda reply: bar(next(done)), keys=bool(estimate.calls)) as made:
                return await work(made)

        return asyncio.run(main())


def _agree(options: AskOptions, estimate: Estimate) -> None:
    """Show the price, and ask for a yes unless nothing is spent. Raises `click.UsageError`, `Declined`."""
    if not estimate.calls or estimate.micro_usd == 0:
        return
    words = estimate_in_words(estimate)
    if options.budget is None:
        raise click.UsageError(f"expected --budget USD, found none; {words}")
    if (options.budget_micro_usd or 0) < estimate.spent + estimate.dearest:
        from stenolog.adapters.providers.prices import usd

        least = usd(estimate.spent + estimate.dearest)
        why = "if requests set no limit of output (max_tokens), the longest answer is reckoned with"
        raise click.UsageError(
            f"--budget: expected at least {least}, found {options.budget:g}; {words}; {why}"
        )
    if options.yes:
        say(words, mark="·", style="cyan")
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"cannot ask for confirmation here: add --yes; {words}")
    ask(f"{words}. Spend at most ${options.budget:,.2f}?", "nothing was asked")


def estimate_in_words(estimate: Estimate) -> str:
    """Return an estimate in words: how many calls, and what they cost."""
    from stenolog.adapters.providers.prices import usd

    kept = f" beside {estimate.kept:,} kept ones, which cost ${usd(estimate.spent)}" if estimate.kept else ""
    calls = f"{counted(estimate.calls, 'call')}{kept}"
    if estimate.micro_usd is None:
        return f"{calls}: no price is known for a model (--prices FILE)"
    about = "" if estimate.likely is None else f"about ${usd(estimate.likely)}, "
    return f"{calls}: {about}at most ${usd(estimate.micro_usd)}"

"""Command `request`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import click

from stenolog.adapters.conversation.queries.requests.bills import bill_of
from stenolog.apps.cli.arguments import agent as agents
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, line
from stenolog.apps.views import asked_request as requests
from stenolog.apps.views.differences import at_call_before, difference, difference_data
from stenolog.apps.views.lanes import means, unrecorded
from stenolog.apps.views.positions import position_ranges
from stenolog.domain.errors import InvalidEventError


@command("request", example="stenolog request demo --agent coder --at 9 --diff 6")
@agents.takes_agent
@click.option("--at", metavar="ENTRY", default="@", help="Show the request at this entry or time.")
@agents.takes_api
@click.option("--policy", metavar="POLICY", help="What is sent, such as last:50+tokens:16k.")
@click.option("--budget", metavar="N", help="The most tokens, such as 16k.")
@click.option("--without", multiple=True, metavar="ENTRIES", help="Leave out entries: 91 or 40-44,91.")
@click.option("--mode", metavar="WORD", help="Another mode, such as chat, agent, run.")
@click.option("--edit", multiple=True, metavar="AT:TEXT", help="Put this text there; repeatable.")
@click.option("--why", is_flag=True, help="Show the reason for each part.")
@click.option(
    "--message",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show part N and its reason; 0: prompt, tools.",
)
@click.option("--dropped", is_flag=True, help="Show what was left out, and why.")
@click.option("--diff", "before", metavar="ENTRY", help="Show what changed since; call: since the last call.")
@click.option("--other", metavar="NAME", help="Show what differs from this agent's.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
@click.option("--built", is_flag=True, help="Show it as stenolog builds it, not as sent.")
@click.option("--raw", is_flag=True, help="Print only the body: the exact bytes.")
@takes_conversation
def request_command(
    db: Database,
    target: str,
    agent: str | None,
    at: str,
    api: str | None,
    policy: str | None,
    budget: str | None,
    without: tuple[str, ...],
    mode: str | None,
    edit: tuple[str, ...],
    why: bool,
    message: int | None,
    dropped: bool,
    before: str | None,
    other: str | None,
    exit_code: bool,
    built: bool,
    raw: bool,
) -> CommandResult | None:
    """Show what an agent's model is sent next.

    --policy, --budget, --without, --mode and --edit show another beside it.
    """
    differs, reasons = bool(before or other), why or message is not None
    if sum((reasons, dropped, differs, raw)) > 1:
        raise click.UsageError("--why, --dropped, --diff and --raw are different views: choose one")
    if (without or edit or mode is not None) and (reasons or dropped or differs):
        raise click.UsageError(
            "--without, --mode and --edit are shown beside the real request, or with --raw alone"
        )
    conversation = find_conversation(open_log(db), target)
    position = resolve(conversation, at)
    if other:
        agents.known_agent(conversation, other)
    named = agents.agent_or_only(conversation, agent, position)
    chosen = requests.policy_asked(conversation, named, position, policy, budget)
    asked = requests.AskedRequest(
        conversation,
        named,
        position,
        api,
        chosen,
        [*position_ranges(without, partial(resolve, conversation))],
        mode,
        requests.edits_asked(edit),
        as_built=built,
    )
    if raw:
        agents.print_raw(asked.request())
        agents.say_on_stderr(unrecorded(conversation, named))
        return None
    if reasons:
        shown = _reasons(asked, message)
    elif dropped:
        shown = _dropped(asked)
    elif differs:
        shown = _difference(asked, before, agents.address(other, "--other"), exit_code=exit_code)
    else:
        shown = _whatif(asked, exit_code=exit_code) if asked.is_changed else _real(asked)
    has_note = reasons or not (dropped or differs or asked.is_changed)
    notes = () if has_note else unrecorded(conversation, named)
    return shown._replace(diagnostics=notes)


def _real(asked: requests.AskedRequest) -> CommandResult:
    request = asked.request()
    entries = list(asked.conversation.entries())
    billed = bill_of(asked.conversation, request, entries)

    def draw() -> Iterator[Piece]:
        from stenolog.apps.cli.draw.views import drawn_request

        yield from drawn_request(request, entries, billed)
        yield line(("what each rule means: --why", "dim"))

    return CommandResult(requests.real_data(request, billed), draw)


def _reasons(asked: requests.AskedRequest, message: int | None) -> CommandResult:
    from stenolog.projections.analysis.explain import left_out, why

    request = asked.request()
    log = list(asked.conversation.entries(at=asked.at))
    reasons = [one for one in why(request, log) if message in (None, one.message + 1)]
    if not reasons:
        last = max(part.message for part in request.parts) + 1
        raise InvalidEventError(
            f"the request has messages 1 to {last}: expected one of them, found {message}"
        )

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import reasons_drawn

        return reasons_drawn(request, reasons, billed, whole=message is not None)

    billed = bill_of(asked.conversation, request, list(asked.conversation.entries()))
    return CommandResult(requests.reasons_data(request, reasons, left_out(request, log), billed), draw)


def _dropped(asked: requests.AskedRequest) -> CommandResult:
    from stenolog.projections.analysis.budget import budget_room
    from stenolog.projections.analysis.explain import left_out

    request, log = asked.request(), list(asked.conversation.entries(at=asked.at))
    gone, rooms = left_out(request, log), budget_room(request, log, **means(asked.conversation))

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import left_out_drawn

        return left_out_drawn(request, gone, rooms)

    billed = bill_of(asked.conversation, request, list(asked.conversation.entries()))
    return CommandResult({**requests.reasons_data(request, [], gone, billed), "budget": rooms}, draw)


def _difference(
    asked: requests.AskedRequest, before: str | None, other: str | None, *, exit_code: bool
) -> CommandResult:
    earlier = asked._replace(agent=other or asked.agent)
    if before == "call":
        earlier = at_call_before(earlier)
    elif before is not None:
        earlier = earlier._replace(at=resolve(asked.conversation, before))
    found = difference(earlier, asked)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.difference import difference_drawn

        return difference_drawn(found.diff, found.before, found.after, found)

    return CommandResult(difference_data(found), draw, failed=exit_code and not found.diff.equal)


def _whatif(asked: requests.AskedRequest, *, exit_code: bool) -> CommandResult:
    whatif = asked.whatif()

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.policy import whatif_drawn

        return whatif_drawn(whatif)

    return CommandResult(requests.whatif_data(asked, whatif), draw, failed=exit_code and not whatif.same)

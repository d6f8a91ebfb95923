"""Command `submit`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.approver import approver_of, takes_approver
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db, typed
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece, line, paragraph
from stenolog.apps.cli.terminal import say
from stenolog.domain.errors import IllegalCommandError
from stenolog.domain.lanes.lifecycle import BUSY
from stenolog.projections.questions import on_one_line
from stenolog.projections.terminal_text import shown_call

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.adapters.engine.approvals import Approver, PendingApproval
    from stenolog.domain.lanes.state import State
TEAM = "team"
LOOK = 0.5
"""Seconds without an entry after which a look at the delegates says whether they wait for a person."""


@command("submit", example="stenolog submit --conversation user-7 'Find the bug' --id m-17 --wait")
@click.option(
    "--conversation", "target", metavar="NAME", required=True, shell_complete=names, help="The conversation."
)
@click.option("--team", metavar="NAME", default=TEAM, show_default=True, help="The workers' --name.")
@click.option("--to", metavar="NAME", multiple=True, help="Whom the message is for; repeatable.")
@click.option("--id", metavar="ID", default="", help="Id of the entry, appended once.")
@click.option("--cancel", is_flag=True, help="Stop all agents.")
@click.option("--approve", is_flag=False, flag_value="", metavar="[ENTRY]", help="Approve a call.")
@click.option("--refuse", is_flag=False, flag_value="", metavar="[ENTRY]", help="Refuse a call.")
@click.option("--answer", metavar="TEXT", help="Answer a tool's question.")
@click.option("--call", metavar="ENTRY", default="", help="The call whose question --answer is for.")
@takes_approver
@click.option("--wait", is_flag=True, help="Print the answers, until all agents rest.")
@click.argument("message", required=False)
@takes_db
def submit_command(
    db: Database,
    target: str,
    message: str | None,
    team: str,
    to: tuple[str, ...],
    id: str,
    cancel: bool,
    approve: str | None,
    refuse: str | None,
    answer: str | None,
    call: str,
    identity: str,
    sign: str | None,
    wait: bool,
) -> CommandResult:
    """Send a message to a team of workers.

    Or --cancel, --approve, --refuse, --answer. A call is named by the position of its answer, if several
    wait. With --wait exits with 1 if an agent has failed.
    """
    from stenolog.apps.workers.status import has_worker

    if (identity or sign) and approve is None and refuse is None and answer is None:
        raise click.UsageError("--identity and --sign go with --approve, --refuse and --answer")
    if call and answer is None:
        raise click.UsageError("--call goes with --answer")
    control = _only_one(message, cancel, [approve, refuse, answer], bool(to or id))
    log = open_log(db, create=not control)
    conversation = find_conversation(log, target) if control else log[target]
    name = Path(team).stem if team.endswith(".toml") else team
    data: dict[str, Any] = {"conversation": conversation.name}
    before = conversation.position
    if message is not None:
        from stenolog.apps.workers.submitting import submit_sync

        before = data["position"] = submit_sync(conversation, message, to=to, id=id, team=name)
    elif cancel:
        from stenolog.apps.workers.submitting import cancel as cancelled

        data["position"] = asyncio.run(cancelled(conversation, team=name))
    else:
        by = approver_of(identity, sign)
        if answer is not None:
            data |= _answered(conversation, answer, call, name, by)
        else:
            data |= _decided(conversation, approve, refuse, name, by)
    if has_worker(log, name) is False:
        words = f"no worker of {name!r} is running; the message waits for one (`stenolog workers`)"
        say(words, mark="·", style="cyan")
    if not wait:
        done = line(("✓ ", "green"), f"{data['conversation']}: submitted at {data['position']}")
        return CommandResult(data, lambda: [done])
    answers = [*_answers(conversation, before, acted=control)]
    failed = any(lane.status == "failed" for lane in conversation.state().lanes.values())
    notes = tuple(_open_approvals(db, conversation, name))
    data |= {"answers": [{"agent": agent, "text": text} for agent, text in answers]}
    return CommandResult(data, lambda: _drawn_answers(answers), failed=failed, diagnostics=notes)


def _only_one(message: str | None, cancel: bool, decisions: Sequence[str | None], described: bool) -> bool:
    """Return whether a command replaces the text; `described`: with `--to` or `--id`."""
    given = (message is not None) + cancel + sum(each is not None for each in decisions)
    if given != 1:
        raise click.UsageError(
            f"expected one of MESSAGE, --cancel, --approve, --refuse and --answer, found {given}"
        )
    if message is None and described:
        raise click.UsageError("--to and --id go with a message")
    return message is None


def _decided(
    conversation: Conversation, approve: str | None, refuse: str | None, team: str, by: Approver | None
) -> dict[str, Any]:
    from stenolog.apps.workers import submitting

    written = (approve if refuse is None else refuse) or ""
    # A refusal ends a question too.
    pending = [each for each in _pending(conversation) if each[1].question is None or refuse is not None]
    call = _call_meant(pending, written, "waiting for approval")
    decide = submitting.approve if refuse is None else submitting.reject
    position = asyncio.run(decide(conversation.log[call.conversation], call.call, by=by, team=team))
    return {"conversation": call.conversation, "position": position}


def _answered(
    conversation: Conversation, text: str, written: str, team: str, by: Approver | None
) -> dict[str, Any]:
    from stenolog.apps.workers import submitting
    from stenolog.projections.answers import answer_from

    asking = [each for each in _pending(conversation) if each[1].question is not None]
    call = _call_meant(asking, written, "waiting for an answer")
    assert call.question is not None, "the others were left out"
    where, value = conversation.log[call.conversation], answer_from(call.question, text)
    made = submitting.answer(where, call.call, value, by, asked=call.asked, team=team)
    return {"conversation": call.conversation, "position": asyncio.run(made)}


def _call_meant(calls: Sequence[tuple[int, PendingApproval]], written: str, waits: str) -> PendingApproval:
    meant = [call for at, call in calls if written in ("", str(at), call.code)]
    if len(meant) == 1:
        return meant[0]
    # Two calls of one answer have codes of their own.
    wanted = f"a call at {written}" if written and not meant else "the position of one call, or its code"
    listed = "".join(f"\n  {at} or {each.code}: {_in_words(each)}" for at, each in calls)
    raise IllegalCommandError(f"expected {wanted}; {waits}: {listed or 'none'}")


def _pending(conversation: Conversation) -> Iterator[tuple[int, PendingApproval]]:
    from stenolog.adapters.engine.approvals import waiting

    for call in waiting(conversation):
        answer = conversation.log[call.conversation].entry_by_id(call.call.entry)
        assert answer is not None, "its call is open"
        yield answer.position, call


def _in_words(call: PendingApproval) -> str:
    words = f"{call.conversation}, {call.lane}: {shown_call(call.name, call.arguments)}"
    return words if call.question is None else f"{words} asks: {on_one_line(call.question)}"


def _open_approvals(db: Database, conversation: Conversation, team: str) -> Iterator[Diagnostic]:
    """Yield a sentence for each call to decide, with the command that approves or answers it."""
    calls = [*_pending(conversation)]
    places = [at for at, _ in calls]
    for at, call in calls:
        words = ["submit", "--conversation", conversation.name]
        words += [] if team == TEAM else ["--team", team]
        named, waits = str(at) if places.count(at) == 1 else call.code, "waits for your approval"
        if call.question is None:
            words += ["--approve", named]
        else:
            waits = "waits for your answer"
            words += ["--call", named] * (len(calls) > 1) + ["--answer", "TEXT"]
        yield Diagnostic("note", "awaiting_approval", f"{_in_words(call)} {waits}: {typed(db, *words)}")


def _answers(conversation: Conversation, position: int, *, acted: bool) -> Iterator[tuple[str, str]]:
    """Yield later answers, until every agent rests or waits for a person.

    `acted`: no answer or error need come first, since the state already follows a command.
    """
    from stenolog.adapters.engine.approvals import only_waits
    from stenolog.domain.events import AssistantMessage, LlmError, UserMessage

    while True:
        for entry in conversation.tail(after=position, timeout=LOOK):
            position = entry.position
            match entry.event:
                case AssistantMessage(purpose="answer", text=text, agent=agent) if text:
                    acted = True
                    yield agent, text
                case AssistantMessage() | LlmError() | UserMessage():
                    acted = acted or not isinstance(entry.event, UserMessage)
                case _:
                    pass
            state = conversation.state()
            # The state may be of later entries, which were not read yet.
            if acted and state.position == position and not _is_busy(state):
                return
        # Where a delegate waits for a person, no entry comes here.
        if acted and conversation.position == position and only_waits(conversation):
            return


def _is_busy(state: State) -> bool:
    lanes = state.lanes.values()
    return any(lane.status in BUSY and lane.status != "awaiting_approval" for lane in lanes)


def _drawn_answers(answers: Iterable[tuple[str, str]]) -> Iterator[Piece]:
    for agent, text in answers:
        yield line((agent, "bold"))
        yield paragraph(text, indent=2)

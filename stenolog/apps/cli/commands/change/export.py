"""Command `export`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from stenolog.adapters.conversation.queries.exporters import EXPORTERS, Exporter, moment, session_of
from stenolog.apps.cli.arguments.agent import agent_or_only, say_on_stderr, takes_agent_else, takes_conditions
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.evidence import PackOptions, pack_data, pack_notes, takes_pack_options
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import RegisteredName, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, counted, done
from stenolog.apps.cli.terminal import STDOUT, ask, new_file, whole_or_not_at_all
from stenolog.apps.inspect.one_file.redaction import Redaction, Taken
from stenolog.apps.views.lanes import lane, unrecorded
from stenolog.apps.views.sessions import lacks
from stenolog.domain.policy_text import policy_of
from stenolog.projections.terminal_text import EscapedStream

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.adapters.importers.evidence.pack import PackContents, Packed

PLACE = click.Path(allow_dash=True, path_type=Path)


@command("export", example="stenolog export demo --as openai --agent coder")
@click.option(
    "--as",
    "form",
    type=RegisteredName(EXPORTERS),
    metavar="FORM",
    default="jsonl",
    show_default=True,
    help="Such as evidence, html, markdown, openai, atif, otlp; of one request: json, curl, pytest.",
)
@takes_agent_else("for forms of one agent")
@click.option("--at", metavar="ENTRY", help="Entry or time of the request. Evidence: several, or all.")
@takes_conditions
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="To this file, or folder. Default, and -: stdout.",
)
@click.option(
    "--redact",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Remove what it finds; for html; repeatable.",
)
@click.option(
    "--redact-key",
    "keys",
    metavar="KEY",
    multiple=True,
    help="Remove the values under this key of JSON; repeatable.",
)
@takes_pack_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes_conversation
def export_command(
    db: Database,
    target: str,
    form: str,
    agent: str | None,
    at: str | None,
    api: str | None,
    policy: str | None,
    output: Path | None,
    patterns: tuple[str, ...],
    keys: tuple[str, ...],
    pack: PackOptions,
    yes: bool,
) -> CommandResult | None:
    """Write a conversation as JSONL, or in another form."""
    exporter = EXPORTERS[form]
    _check_options(exporter, {"--agent": agent, "--at": at, "--api": api, "--policy": policy}, pack)
    conversation = find_conversation(open_log(db), target)
    if exporter.write_folder is not None:
        return _export_folder(conversation, exporter, output)
    if output is not None and output.is_dir() and exporter.write_session is None:
        raise click.BadParameter(f"File {str(output)!r} is a directory.", param_hint="'-o' / '--output'")
    position = None if exporter.write_moment is None else resolve(conversation, at or "@")
    is_named = output is not None and not output.is_dir()
    taken: list[Taken] = []
    more: dict[str, Any] = {}
    if exporter.write_pack is not None and not (patterns or keys):
        text, packed = _packed(conversation, exporter, pack.contents(conversation, at))
        notes, more = tuple(pack_notes(packed)), pack_data(packed)
        write: Callable[[TextIO], object] = partial(_write_text, text)
    else:
        write, notes, name = _writing(conversation, exporter, agent, position, api, policy)
        output = output / name if output is not None and output.is_dir() else output
    if patterns or keys:
        text, taken = _redacted(conversation, exporter, Redaction(patterns, keys))
        notes = (*notes, *_redaction_notes(taken))
        if not yes and sys.stdin.isatty() and sys.stderr.isatty():
            say_on_stderr(notes)
            notes = ()
            ask("Is that all, and shall it be written?", "nothing was written")
        write = partial(_write_text, text)
    if output is None or output == STDOUT:
        if click.get_current_context().params["as_json"]:
            raise click.UsageError("with --json, say where the export goes: -o FILE")
        write(cast("TextIO", EscapedStream(sys.stdout)) if sys.stdout.isatty() else sys.stdout)
        say_on_stderr(notes)
        return None
    _write_file(output, write, is_named=is_named)
    answer = _exported(conversation, form, output, position)._replace(diagnostics=notes)
    more |= {"taken": taken} if taken else {}
    return answer._replace(data={**cast("dict[str, Any]", answer.data), **more})


def _redacted(
    conversation: Conversation, exporter: Exporter, redaction: Redaction
) -> tuple[str, list[Taken]]:
    if exporter.write_redacted is None:
        forms = ", ".join(name for name in EXPORTERS if EXPORTERS[name].write_redacted)
        raise click.UsageError(f"--redact and --redact-key are for --as {forms}")
    stream = StringIO()
    exporter.write_redacted(conversation, stream, redaction)
    return stream.getvalue(), redaction.removals


def _packed(conversation: Conversation, exporter: Exporter, contents: PackContents) -> tuple[str, Packed]:
    # In memory first: nothing is printed of a pack that cannot be signed.
    stream = StringIO()
    assert exporter.write_pack is not None, "it is asked for"
    packed = exporter.write_pack(conversation, stream, contents)
    return stream.getvalue(), packed


def _redaction_notes(taken: Sequence[Taken]) -> Iterator[Diagnostic]:
    if not taken:
        yield Diagnostic("warning", "nothing-redacted", "nothing was found that is to be taken out")
    for each in taken:
        words = f"{each.where}: taken out: {counted(each.times, 'text')} by {each.by}, such as {each.sample}"
        yield Diagnostic("note", "redacted", words)


def _write_file(path: Path, write: Callable[[TextIO], object], *, is_named: bool) -> None:
    """Write a file; one whose name the exporter chose replaces no other, which a program may go on with."""
    if not is_named:
        stream = StringIO()
        write(stream)
        new_file(path, stream.getvalue())
        return
    with whole_or_not_at_all(path) as file:
        write(file)


def _write_text(text: str, stream: TextIO) -> None:
    stream.write(text)


def _check_options(exporter: Exporter, given: Mapping[str, str | None], pack: PackOptions) -> None:
    """Raise `UsageError` for an unused option."""
    if pack.first_given and exporter.write_pack is None:
        forms = ", ".join(name for name in EXPORTERS if EXPORTERS[name].write_pack)
        raise click.UsageError(f"{pack.first_given} is for --as {forms}")
    if exporter.write_moment is not None:
        return
    for option in (option for option, value in given.items() if value is not None):
        if _takes(exporter, option):
            continue
        wanted = [each for each in EXPORTERS if _takes(EXPORTERS[each], option)]
        what = "all agents" if option == "--agent" else "the whole conversation"
        raise click.UsageError(f"{option} is for --as {', '.join(wanted)}; --as {exporter.name} is of {what}")


def _takes(exporter: Exporter, option: str) -> bool:
    if option == "--at" and exporter.write_pack is not None:
        return True
    return exporter.write_moment is not None or (option == "--agent" and exporter.of_one_agent)


def _writing(
    conversation: Conversation,
    exporter: Exporter,
    agent: str | None,
    position: int | None,
    api: str | None,
    policy: str | None,
) -> tuple[Callable[[TextIO], object], tuple[Diagnostic, ...], str]:
    """Return what writes to a stream, notes on it, and the name of a file if it is to have a certain one."""
    if position is not None:
        named = agent_or_only(conversation, agent, position)
        text = moment(conversation, named, position, exporter.name, api=api, policy=policy_of(policy))
        return lambda stream: stream.write(text), unrecorded(conversation, named), ""
    whose, notes = "", tuple[Diagnostic, ...]()
    if exporter.of_one_agent:
        whose = lane(agent_or_only(conversation, agent, conversation.position)).agent
        notes = unrecorded(conversation, whose)
    if exporter.write_session is not None:
        made = exporter.write_session(session_of(conversation, whose))
        return lambda stream: stream.write(made.text), lacks(conversation, made), Path(made.place).name
    assert exporter.write is not None, "an exporter writes to a stream, into a folder, or one request"
    write = exporter.write
    return lambda stream: write(conversation, stream, whose), notes, ""


def _export_folder(conversation: Conversation, exporter: Exporter, folder: Path | None) -> CommandResult:
    if folder is None or folder == STDOUT:
        raise click.UsageError(f"--as {exporter.name}: say into which folder: -o FOLDER")
    assert exporter.write_folder is not None, "it writes into a folder"
    return _exported(conversation, exporter.name, exporter.write_folder(conversation, folder))


def _exported(conversation: Conversation, form: str, file: Path, at: int | None = None) -> CommandResult:
    words = f"{conversation.name} is exported as {file}, {conversation.position} entries"
    if at is not None:
        words = f"the request at {at} of {conversation.name} is exported as {file}"
    return done(
        words, conversation=conversation.name, entries=conversation.position, form=form, file=str(file)
    )

"""Exporters: the formats that a conversation, or one request of it, is written in, as registered values.

TO_NOTES = Exporter("notes", "my notes", write)
EXPORTERS.add(TO_NOTES.name, TO_NOTES)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from stenolog.adapters.plugins import LazyRegistry, ProgramRegistry
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.errors import CallerError
from stenolog.domain.policy import PolicyLike
from stenolog.projections.programs import Program

if TYPE_CHECKING:
    from stenolog.projections.moments.moment import Moment
    from stenolog.projections.moments.session import AgentSession, SessionFile


@dataclass(frozen=True)
class Exporter:
    """A format in which a conversation, or one request of it, is written.

    `write(conversation, stream, agent)` writes text; `agent` is whose messages to write, empty if
    `of_one_agent` is False. `write_folder(conversation, folder)` returns the file written.
    `write_moment(moment)` returns the request of a `Moment` as text. `write_redacted(conversation, stream,
    redaction)` writes what a `Redaction` leaves. `write_pack(conversation, stream, asked)` writes evidence.
    `write_session(session)` returns the `SessionFile` of an agent's `AgentSession`, which a program goes on
    with.
    """

    name: str
    title: str
    write: Callable[..., object] | None = None
    write_folder: Callable[..., Path] | None = None
    of_one_agent: bool = False
    write_moment: Callable[[Moment], str] | None = None
    write_redacted: Callable[..., object] | None = None
    write_pack: Callable[..., Any] | None = None
    write_session: Callable[[AgentSession], SessionFile] | None = None

    @classmethod
    def of_document(cls, name: str, title: str, document: Callable[..., object]) -> Exporter:
        """Return the exporter of a format that is one JSON document: `document(conversation)`."""

        def write(conversation: StreamHandle, stream: TextIO, agent: str) -> None:
            import json  # late: plugins register exporters in every program

            json.dump(document(conversation), stream, ensure_ascii=False, indent=2)
            stream.write("\n")

        return cls(name, title, write)


class _Exporters(ProgramRegistry[Exporter]):
    def _take(self, program: Program) -> None:
        if program.exporter is not None:
            self._take_late(program.name, program.exporter)


EXPORTERS: LazyRegistry[Exporter] = _Exporters("a format to export")
"""Every exporter by its name."""
_SHIPPED = "stenolog.adapters.importers.own.shipped_exporters"
_PAGE = "stenolog.apps.inspect.one_file.exporter"  # by its name, as a plugin's: an app is above us
_EVIDENCE = "stenolog.adapters.importers.evidence.exporter:TO_EVIDENCE"
for _name in ("jsonl", "openai", "markdown", "html", "json", "curl", "python", "pytest"):
    EXPORTERS.add_reference(_name, f"{_PAGE if _name == 'html' else _SHIPPED}:TO_{_name.upper()}")
EXPORTERS.add_reference("evidence", _EVIDENCE)


def export(
    conversation: StreamHandle,
    form: str,
    agent: str,
    at: int | None = None,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
) -> str:
    """Return a conversation as text, or an agent's request at a position.

    Raises `NotRegisteredError` for an unknown form, and `CallerError` for a form that is written into a
    folder, if no agent is named and several take part, and for a position, API or policy with a form of the
    whole conversation.
    """
    exporter = EXPORTERS[form]
    if exporter.write_moment is not None:
        whose = _whose(conversation, exporter, agent)
        return moment(conversation, whose, at, form, api=api, policy=policy)
    if not (at is None and api is None and policy is None):
        raise CallerError(f"{form!r} is of the whole conversation: expected no position, API or policy")
    if exporter.write_session is not None:
        return exporter.write_session(session_of(conversation, _whose(conversation, exporter, agent))).text
    if exporter.write is None:
        raise CallerError(f"{form!r} is written into a folder: expected a form of text, such as 'jsonl'")
    stream = StringIO()
    exporter.write(conversation, stream, _whose(conversation, exporter, agent))
    return stream.getvalue()


def session_of(conversation: StreamHandle, agent: str, at: int | None = None) -> AgentSession:
    """Return an agent's session up to a position, for the exporters of programs' sessions.

    Raises `AgentNotFoundError`, and `InvalidEventError` if the agent was told nothing.
    """
    from stenolog.projections.moments import session  # late, as below

    return session.session_of(list(conversation.entries(at=at)), agent, conversation.log.blobs)


def moment(
    conversation: StreamHandle,
    agent: str,
    at: int | None,
    form: str,
    *,
    api: str | None = None,
    policy: PolicyLike = None,
) -> str:
    """Return the request of `agent` or `agent/task` at a position as text; None is the last.

    `api` and `policy` default to those it was sent by. Raises `NotRegisteredError`, `CallerError` for a form
    that is not of a request or cannot write the API, and as `read_moment`.
    """
    write = EXPORTERS[form].write_moment
    if write is None:
        forms = ", ".join(name for name in EXPORTERS if EXPORTERS[name].write_moment)
        raise CallerError(f"{form!r} is of the whole conversation: expected one of {forms}")
    from stenolog.projections.requests import LaneId  # late: plugins register exporters in every program

    from .requests.bills import missing_of
    from .requests.moments import read_moment

    name, _, task = agent.partition("/")
    position = conversation.position if at is None else at
    found = read_moment(conversation, LaneId(name, task), position, api=api, policy=policy)
    return write(found._replace(missing=missing_of(conversation, found.request)))


def _whose(conversation: StreamHandle, exporter: Exporter, agent: str) -> str:
    of_one = exporter.of_one_agent or exporter.write_moment is not None
    if agent and not of_one:
        raise CallerError(f"{exporter.name!r} is of all agents: expected no agent, found {agent!r}")
    if agent or not of_one:
        return agent
    from stenolog.projections.requests import lanes  # late, as above

    known = sorted({lane.agent for lane in lanes(conversation.entries())})
    if len(known) != 1:
        if not known:
            raise CallerError(
                f"{exporter.name!r} is of one agent: no agent has answered yet; say whose it is: agent=NAME"
            )
        raise CallerError(f"{exporter.name!r} is of one agent: expected agent=, one of: {', '.join(known)}")
    return known[0]

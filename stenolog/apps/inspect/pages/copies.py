"""Copies of a request (bytes, curl, an SDK's call, a test), and of the conversation."""

from __future__ import annotations

from io import StringIO

from stenolog.adapters.conversation.queries.exporters import EXPORTERS, moment
from stenolog.adapters.conversation.queries.requests.bills import missing_of
from stenolog.apps.inspect.one_file.page import write_page
from stenolog.apps.inspect.page import File, TextPage
from stenolog.apps.inspect.query import Query
from stenolog.apps.inspect.request_view.facts import transport_of
from stenolog.apps.inspect.request_view.sent import explained_and_sent
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.moments.moment import Moment

ENDINGS = {"curl": ".sh", "python": ".py", "pytest": ".py"}
"""The endings of the files, by form."""
CALLS = ("curl", "python")
"""The forms that hold only the request, without the entries that it is made of."""


def copied(query: Query) -> File:
    """Return the request in the form that `as` names.

    Raises `InvalidEventError` for an unknown form, and for a test under conditions.
    """
    form = query.word("as", "json")
    place = f"{query.conversation.name}-{query.agent}-{query.at}"
    if form == "json":
        request, sent = explained_and_sent(query)
        content = transport_of(sent.answer).render(request.body, query.log.blobs)
        return File(content, f"{place}.json", "application/json")
    exporter = EXPORTERS.get(form)
    if exporter is None or exporter.write_moment is None:
        forms = ", ".join(name for name in EXPORTERS if EXPORTERS[name].write_moment)
        raise InvalidEventError(f"as: expected one of {forms}, found {form!r:.60}")
    name = f"{'test_' if form == 'pytest' else ''}{place}{ENDINGS.get(form, '.txt')}"
    return File(_written(query, form).encode(), name)


def _written(query: Query, form: str) -> str:
    asked = query.asked_request
    if not asked.is_rewritten:
        return moment(asked.conversation, asked.agent, asked.at, form, api=asked.api, policy=asked.policy)
    write = EXPORTERS[form].write_moment
    if write is None or form not in CALLS:
        raise InvalidEventError(f"as {form}: expected a request of the log as it is, found one with changes")
    request = asked.request()
    missing = missing_of(asked.conversation, request)
    return write(Moment(asked.conversation.name, request, missing=missing))


def saved(query: Query) -> File:
    """Return the whole conversation as one HTML file, as `stenolog export --as html` writes it."""
    talk, stream = query.conversation, StringIO()
    write_page(talk, stream)
    return File(stream.getvalue().encode(), f"{talk.name}.html", "text/html; charset=utf-8")


copy = TextPage("copy", copied)
export = TextPage("export", saved)

"""Pages that show a conversation, each agent's exact request, and the reason for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stenolog.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from stenolog.adapters.conversation.log import Log


def inspector(log: Log, token: str | None = None, *, allow_fork: bool = False) -> Starlette:
    """Return pages that show what each agent was sent, and why; nothing can be changed through them.

    `token` None: a new one, in `app.state.token`, which the first address needs (`?token=`), by a host name
    of this machine. "": none, where the application that the pages are mounted in sees to it.
    `allow_fork`: a page can begin a fork of a conversation, the one thing that is ever written.
    Raises `MissingExtraError`.
    """
    try:
        from . import app
    except ModuleNotFoundError as error:
        raise MissingExtraError("inspect", "starlette or jinja2") from error
    return app.inspector(log, token, allow_fork=allow_fork)

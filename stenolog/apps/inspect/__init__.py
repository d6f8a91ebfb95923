"""Pages that show a conversation, each agent's exact request, and the reason for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stenolog.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from stenolog.adapters.conversation.log import Log

    from .importing import Importing


def inspector(
    log: Log,
    token: str | None = None,
    *,
    allow_fork: bool = False,
    imports: Importing | None = None,
    editor: str = "",
) -> Starlette:
    """Return read-only pages that show what each agent was sent, and why.

    `token` None: make one (`app.state.token`), which the first address must have (`?token=`), at a host name
    of this machine. "": none, for an application that checks access itself. `allow_fork`: a page can fork a
    conversation. `imports`: the import of `stenolog inspect FOLDER`, which pages show. `editor`
    opens files that calls name: `vscode`, `cursor`, `zed` or `idea`. Raises `MissingExtraError`.
    """
    try:
        from . import app
    except ModuleNotFoundError as error:
        raise MissingExtraError("inspect", "starlette or jinja2") from error
    return app.inspector(log, token, allow_fork=allow_fork, imports=imports, editor=editor)

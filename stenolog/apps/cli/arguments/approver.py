"""Options that say who decides about calls: `--identity` and `--sign`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from stenolog.adapters.engine.approvals import Approver

F = TypeVar("F", bound=Callable[..., Any])


def takes_approver(function: F) -> F:
    """Add the options."""
    function = click.option(
        "--sign", type=click.Path(dir_okay=False), metavar="KEYFILE", help="Sign decisions with this key."
    )(function)
    return click.option("--identity", metavar="TEXT", default="", help="Who decides, as a mail address.")(
        function
    )


def approver_of(identity: str, sign: str | None) -> Approver | None:
    """Return who decides, if that was said."""
    if not (identity or sign):
        return None
    from stenolog.adapters.engine.approvals import Approver
    from stenolog.adapters.importers.evidence.signing import read_signer

    try:
        return Approver(identity, read_signer(sign) if sign else None)
    except OSError as error:
        raise click.UsageError(f"--sign: {sign}: {error.strerror}") from error

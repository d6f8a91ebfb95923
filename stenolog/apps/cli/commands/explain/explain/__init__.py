"""The group `explain`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Say where an entry, a call or a text came from and went.

    Without one of the commands below it is `explain entry`.
    """,
    example="explain demo 5",
    default="entry",
)

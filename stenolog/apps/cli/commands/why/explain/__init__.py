"""The group `explain`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Say where an entry or a text came from and went.

    `explain [CONVERSATION] [ENTRY]` explains an entry; the commands explain more.
    """,
    example="explain demo 5",
    default="entry",
)

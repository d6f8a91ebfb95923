"""The group `check`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Check the log, its requests, a file or a corpus.

    Without one of the commands below it is `check all`.
    """,
    example="check",
    default="all",
)

"""The group `check`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Check the log, its requests, a file or a corpus.

    `check [CONVERSATION]` checks all of it, `check FILE...` transcripts; the commands check a part.
    """,
    example="check",
    default="all",
)

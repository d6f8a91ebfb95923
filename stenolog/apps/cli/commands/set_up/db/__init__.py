"""The group `db`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Back up, restore, salvage, shrink or locate the database.""",
    example="db backup copy.db",
)

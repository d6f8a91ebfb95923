"""The group `db`."""

from stenolog.apps.cli.app import Commands

GROUP = Commands(
    __name__,
    """Back up, restore or salvage the database, and more.""",
    example="db backup copy.db",
)

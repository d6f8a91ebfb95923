"""Storage of logs in SQLite, through the `eventsourcing` library, which only this package imports."""

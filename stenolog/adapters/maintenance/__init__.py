"""Maintenance of a log by a person: take claims over, erase an entry, delete a conversation."""

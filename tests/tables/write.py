"""Appends to a log that keeps a table, until it is killed: python write.py LOG"""

from __future__ import annotations

import sys
from itertools import count

import stenolog
from stenolog import UserMessage
from stenolog.tables import attach_table
from tests.tables.given import lines

if __name__ == "__main__":
    with stenolog.open(sys.argv[1]) as log:
        attach_table(log, lines)
        for number in count():
            log[f"talk {number % 3}"].append(UserMessage(text=f"{number}\nmore"))

"""Follows a log into PostgreSQL until it is killed: python follow.py LOG DSN"""

from __future__ import annotations

import sys

import stenolog
from stenolog.contrib.workflow import conversation_messages
from stenolog.tables import Follower
from tests.tables.given import lines

if __name__ == "__main__":
    with (
        stenolog.open(sys.argv[1]) as log,
        Follower(log, sys.argv[2], lines, conversation_messages) as follower,
    ):
        follower.follow()

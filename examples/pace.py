"""The pace of the models without a key: slow enough that one can read along."""

from __future__ import annotations

import os

PAUSE_SECONDS = float(os.environ.get("EXAMPLES_PAUSE_SECONDS", "0.02"))
"""The wait behind each piece of an answer. The tests need none."""

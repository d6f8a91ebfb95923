"""A relay whose disk hangs from the file FOLDER/hangs on, and whose patience is short.

python hanging_relay.py FOLDER < configuration
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from stenolog.apps.tap import journal_writer
from stenolog.apps.tap.relay import copies, process

HANGS = Path(sys.argv[1]) / "hangs"
_append = journal_writer._SegmentFile.append


def append(self: journal_writer._SegmentFile, buffers: list[bytes]) -> None:
    """Write as before, once the disk does not hang any more."""
    while HANGS.exists():
        time.sleep(0.01)
    _append(self, buffers)


journal_writer._SegmentFile.append = append  # type: ignore[method-assign]
journal_writer.CLOSE_SECONDS = 0.5
copies.COMMIT_SECONDS = 0.3
process.main()

"""Process of a recorder: reads its configuration from standard input, and runs the recorder."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic_core import from_json, to_json

from . import recorder


@dataclass(frozen=True)
class RecorderConfig:
    """Configuration of a recorder; `database` is a path or an address, `notify` an inherited descriptor.

    `cwd` is the folder that the recorded command works in, "" where that is not known.
    """

    folder: str
    database: str
    notify: int | None
    cwd: str = ""

    def to_json(self) -> bytes:
        """Return the configuration as the process reads it."""
        return to_json(asdict(self))


def main() -> None:
    """Record until the last relay has ended."""
    config = RecorderConfig(**from_json(sys.stdin.buffer.read()))
    recorder.main(Path(config.folder), config.database, config.notify, config.cwd)


if __name__ == "__main__":
    main()

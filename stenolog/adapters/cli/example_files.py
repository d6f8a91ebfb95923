"""The example files of the documentation, which the package brings along."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4

HERE = Path("docs", "examples")
"""The folder below the working directory in which the documentation expects them."""


def write_example_files() -> bool:
    """Copy the files to `docs/examples`, all of them or none; return False where the folder exists."""
    if HERE.exists():
        return False
    HERE.parent.mkdir(exist_ok=True)
    part = HERE.with_name(f"{HERE.name}.{uuid4().hex[:8]}")
    try:
        shutil.copytree(_packaged(), part, ignore=shutil.ignore_patterns("__pycache__"))
        os.rename(part, HERE)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _packaged() -> Path:
    """Return the folder of the files: in the wheel below the package, in a checkout beside it."""
    package = Path(__file__).parents[2]
    return next(at for at in (package / "examples", package.parent / HERE) if at.is_dir())

"""Folder and branch of a recorded command."""

from __future__ import annotations

from pathlib import Path

HEAD = "ref: refs/heads/"
LONGEST = 4_096
"""Characters of a file of git's that are read."""


def working_place(cwd: str) -> dict[str, str]:
    """Return `cwd`, and the `branch` of its git repository, if it is in one."""
    if not cwd:
        return {}
    branch = next((found for folder in (Path(cwd), *Path(cwd).parents) if (found := _branch(folder))), "")
    return {"cwd": cwd, "branch": branch} if branch else {"cwd": cwd}


def _branch(folder: Path) -> str:
    git = folder / ".git"
    try:
        if git.is_file():  # a work tree of its own
            git = folder / _read(git).removeprefix("gitdir: ").strip()
        head = _read(git / "HEAD").strip()
    except (OSError, ValueError):  # a path with a null character is no path
        return ""
    return head.removeprefix(HEAD) if head.startswith(HEAD) else ""


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST)

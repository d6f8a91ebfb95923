"""The README's claims, each with the command that proves it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
CLAIMS = re.findall(r"^\| [A-Z][^|]+\| `stenolog ([^`]+)` \|$", README, flags=re.MULTILINE)


def test_there_are_five_claims() -> None:
    assert len(CLAIMS) == 5


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_proved_by_its_command(demo: Callable[..., Any], claim: str) -> None:
    head = demo("check", "log", "--json").data["head"]

    ran = demo(*shlex.split(claim.replace("HEAD", head)))

    assert (ran.status, ran.err) == (0, "")


def test_verify_finds_a_tail_that_was_cut_off_by_a_head_kept_elsewhere(demo: Callable[..., Any]) -> None:
    demo("fork", "demo", "--after", "6", "--name", "cut")
    head = demo("show", "demo", "@", "--json").data["digest"]

    ran = demo("check", "log", "cut", "--head", head)

    assert ran.status == 1
    assert head in ran.err

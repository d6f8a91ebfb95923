"""Random cases of a law: a few in every run, more with the tests marked slow, most of them at night."""

from __future__ import annotations

import pytest


def seeds(fast: int, *, slow: int = 0, nightly: int = 0) -> pytest.MarkDecorator:
    """Give a test `seeds`, a range: the first ones, then up to `slow`, then up to `nightly`."""
    bounds = {"fast": (0, fast), "slow": (fast, slow), "nightly": (max(fast, slow), nightly)}
    ranges = {name: range(*bound) for name, bound in bounds.items()}
    marks = {"fast": (), "slow": (pytest.mark.slow,), "nightly": (pytest.mark.nightly,)}
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(found, marks=marks[name], id=f"{found.start}-{found.stop}")
            for name, found in ranges.items()
            if found
        ],
    )

"""Advice on the bill: predicted as a provider that follows its documentation would bill it."""

from __future__ import annotations

import pytest

from stenolog.analysis import advise
from tests.analysis.paid_calls import replayed, story
from tests.random_cases import seeds as seeds_of


@seeds_of(6, slow=200)
def test_what_each_change_would_have_cost_is_predicted_within_five_per_cent(seeds: range) -> None:
    for seed in seeds:
        told = story(seed)
        found = advise([told.log])
        assert sum(one.simulated for one in found) == pytest.approx(told.cost, rel=0.05), seed
        for advice in found:
            for option in advice.options:
                if not option.patch:
                    continue
                true = replayed(told, advice.agent, dict(option.patch))
                predicted = told.cost - option.saving
                assert predicted == pytest.approx(true, rel=0.05), (seed, option)
            if advice.best is None:
                assert all(option.saving < 0.03 * told.cost for option in advice.options)
            elif advice.best.patch:
                true = replayed(told, advice.agent, dict(advice.best.patch))
                assert true < told.cost, (seed, advice.best)

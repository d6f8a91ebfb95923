"""Binary search with a noisy judge: a planted change is found, and nothing is named by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import stenolog
from stenolog import ModeSwitch, UserMessage
from stenolog.analysis import text_fate
from stenolog.apps.views.axes import case_at, of_entries
from stenolog.apps.views.bisections import Judged, by_text
from stenolog.context import LastN
from stenolog.projections.analysis.retry.bisecting import Bisection, Search, searched


def found_in(rates: Sequence[float], seed: int, **terms: float) -> Bisection:
    """Search variants that pass at these rates."""
    random = Random(seed)
    search = Search(len(rates), **{"samples": 400, **terms})  # type: ignore[arg-type]
    return searched(lambda variant, _: random.random() < rates[variant], search).found


def test_a_planted_change_is_found_though_the_judge_is_noisy() -> None:
    for seed in range(100):
        random = Random(seed)
        variants = random.randint(2, 60)
        planted = random.randint(1, variants - 1)
        high = random.uniform(0.6, 1)
        rates = [high] * planted + [high - random.uniform(0.4, 0.6)] * (variants - planted)
        if worse := random.random() < 0.5:
            rates = [1 - rate for rate in rates]
        found = found_in(rates, seed)
        assert found == Bisection("found", planted - 1, planted, not worse), seed


def test_no_variant_is_named_by_chance_more_often_than_stated() -> None:
    verdicts = Counter(found_in([0.6] * 20, seed, confidence=0.8).verdict for seed in range(100))
    assert verdicts["no difference"] > 0.8 * 100

    slowly = [0.9 - 0.01 * step for step in range(60)]
    assert {found_in(slowly, seed).verdict for seed in range(20)} == {"undecided"}

    for seed in range(50):  # up, and down again: whichever is named is one of the two
        found = found_in([0.1] * 7 + [0.9] * 7 + [0.5] * 7, seed)
        assert found.verdict == "found"
        assert found.after in (7, 14)


def test_few_samples_narrow_the_change_down_and_more_go_on_from_there() -> None:
    rates = [0.9] * 13 + [0.5] * 20
    for seed in range(20):
        few = found_in(rates, seed, samples=60)
        many = found_in(rates, seed, samples=600)
        assert few.before < 13 <= few.after
        assert (many.verdict, many.after) == ("found", 13)


def test_an_exact_judge_is_asked_once_for_each_variant() -> None:
    found = found_in([1.0] * 5 + [0.0] * 9, 0, samples=1, exact=True)

    assert found == Bisection("found", 4, 5, worse=True)
    assert found_in([1.0] * 9, 0, samples=1, exact=True).verdict == "no difference"


def test_variants_that_cannot_be_judged_are_passed_over_and_never_named() -> None:
    for seed in range(50):
        random = Random(seed)
        mute = {variant for variant in range(20) if random.random() < 0.4}
        planted = random.randint(1, 19)
        found = searched(
            lambda variant, _, mute=mute, planted=planted: None if variant in mute else variant < planted,  # type: ignore[misc]
            Search(20, 1, exact=True),
        ).found
        heard = [variant for variant in range(20) if variant not in mute]
        assert {found.before, found.after} <= {*heard}
        if found.verdict == "no difference":
            assert planted <= heard[0] or planted > heard[-1]
            continue
        assert found.before < planted <= found.after
        assert {*range(found.before + 1, found.after)} <= mute
        assert found.verdict == ("found" if found.after - found.before == 1 else "undecided")


def test_the_entry_that_brought_a_text_or_took_it_is_found() -> None:
    for seed in range(50):
        random = Random(seed)
        said = [UserMessage(text=f"step {n}", to=("coder",)) for n in range(random.randint(5, 40))]
        planted = random.randrange(len(said) - 1)
        said[planted] = UserMessage(text="Never touch main", to=("coder",))
        last = random.choice([0, random.randint(2, len(said))])
        with stenolog.open(":memory:") as log:
            talk = log["talk"]
            card = stenolog.AgentCard(model="m", policy=LastN(last) if last else {})
            talk.append(ModeSwitch(joins=("coder",), cards={"coder": card}), expected=0)
            talk.extend(said)
            head, brought = talk.position, planted + 2
            came = by_text(of_entries(talk, case_at(talk, "coder", brought), 1, brought), "touch main")
            took = by_text(of_entries(talk, case_at(talk, "coder", head), brought, head), "touch main")
            told = text_fate(talk.entries(), "coder", "touch main")
        assert _named(came) == brought, seed
        assert _named(took) == told.vanished, seed


def _named(judged: Judged) -> int:
    """Return the entry that a search has named; 0 for none."""
    found = judged.searched.found
    return int(judged.axis.variants[found.after].name) if found.verdict == "found" else 0

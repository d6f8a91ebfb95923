"""Parts left out of a request: what an answer depends on is named, and nothing if it depends on no part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest

from stenolog.errors import StenologError
from stenolog.projections.analysis.retry import Here, cases
from stenolog.projections.analysis.retry.halving import Halved, Removal, halving, most_requests
from stenolog.projections.analysis.retry.leaving_out import Part, divided, parts_of, without
from tests.random_cases import seeds
from tests.recording.programs import BODIES, Tap, conversation
from tests.requests.histories import BLOBS, at_work, history

HERE = Here(blobs=BLOBS)
HIGH, LOW = 0.9, 0.1
"""How often a noisy model gives the recorded answer: with what it depends on, and without."""
Given = Callable[[Removal], bool]


def searched(kinds: list[str], given: Given, seed: int, *, spent_at: int = 0) -> tuple[Halved, int]:
    """Search with a noisy model that answers so if `given` is true of what was left out; count its calls.

    There is no more to spend once fewer parts are left out, but one.
    """
    random = Random(seed)
    verdicts: dict[Removal, list[bool]] = {}
    entries = {at for at, kind in enumerate(kinds) if kind == "entry"}
    search = halving(kinds, max(entries))
    trials = next(search)
    while True:
        sent: dict[Removal, list[bool]] = {}
        for removal in trials.removals:
            if entries <= removal:  # no provider takes a request without messages
                continue
            known = sent[removal] = verdicts.setdefault(removal, [])
            rate = HIGH if given(removal) else LOW
            wanted = 1 if 1 < len(removal) < spent_at else trials.samples
            known += [random.random() < rate for _ in range(wanted - len(known))]
        try:
            trials = search.send(sent)
        except StopIteration as end:
            return end.value, sum(map(len, verdicts.values()))


def parts(random: Random) -> list[str]:
    """Return the kinds of a request's parts."""
    lines, tools, entries = random.randint(0, 30), random.randint(0, 20), random.randint(3, 70)
    return ["system"] * lines + ["tool"] * tools + ["entry"] * entries


def planted(kind: str, one: int, other: int) -> tuple[Given, list[tuple[int, ...]]]:
    """Return whether the answer is given without some parts, and the causes to be named."""
    both = tuple(sorted((one, other)))
    found: dict[str, tuple[Given, list[tuple[int, ...]]]] = {
        "one part": (lambda gone: one not in gone, [(one,)]),
        "either": (lambda gone: not {one, other} <= gone, [both]),
        "both": (lambda gone: not {one, other} & gone, [(each,) for each in both]),
        "none": (lambda gone: True, []),
    }
    return found[kind]


@pytest.mark.parametrize("kind", ["one part", "either", "both", "none"])
@seeds(25, slow=200)
def test_what_an_answer_depends_on_is_named_at_some_calls_for_each_doubling(seeds: range, kind: str) -> None:
    right, calls = 0, []
    for seed in seeds:
        random = Random(seed)
        kinds = parts(random)
        given, wanted = planted(kind, *random.sample(range(len(kinds)), 2))
        found, asked = searched(kinds, given, seed)
        named = [cause.parts for cause in found.causes if cause.how != "among"]
        assert all(cause in wanted for cause in named), seed
        right += sorted(named) == wanted and found.verdict == ("found" if wanted else "no difference")
        calls.append(asked / most_requests(len(kinds)))
    assert right >= len(seeds) * 0.96
    assert max(calls) <= {"one part": 32, "none": 10}.get(kind, 64)


def test_an_answer_that_is_rarely_given_again_is_blamed_on_nothing() -> None:
    found, asked = searched(["entry"] * 40, lambda gone: False, 1)

    assert (found.verdict, found.causes, asked) == ("not repeated", (), 32)


def test_a_search_that_gets_no_more_verdicts_says_where_the_cause_is() -> None:
    found, _ = searched(["entry"] * 16, lambda gone: 3 not in gone, 1, spent_at=4)

    assert not found.is_complete
    [cause] = found.causes
    assert (cause.how, 3 in cause.parts, len(cause.parts)) == ("among", True, 7)


@seeds(20, slow=200)
def test_a_request_without_a_part_has_all_others_and_no_provider_refuses_it(seeds: range) -> None:
    tried: Counter[str] = Counter()
    for seed in seeds:
        log = at_work(seed) if seed % 2 else history(seed)
        for case in cases(log)[:4]:
            try:
                whole = divided(case, log, HERE)
            except StenologError:
                continue
            random = Random(seed)
            every = range(len(whole.parts))
            groups = [[at] for at in every]
            groups += [random.sample(every, random.randint(1, len(every))) for _ in range(3) if every]
            for gone in groups:
                made = without(whole, log, gone, HERE)
                tried["refused" if made is None else "made"] += 1
                if made is not None:
                    less = named(whole.parts) - named([whole.parts[at] for at in gone])
                    assert named([*parts_of(made, log)]) <= less, (seed, case.position, gone)
    assert tried["made"] > 20 * tried["refused"]


@pytest.mark.parametrize("api", BODIES)
def test_a_recorded_programs_request_keeps_its_form_around_what_is_left_out(api: str) -> None:
    tap = Tap()
    answer = conversation(tap, api, ["One?", "Two?", "Three?"])[-1]
    log = list(tap.log[answer.conversation].entries())
    case = next(each for each in cases(log) if each.position == answer.position)
    whole = divided(case, log)

    assert {part.kind for part in whole.parts} == {"system", "tool", "entry"}
    for at, part in enumerate(whole.parts):
        made = without(whole, log, [at])
        assert made is not None
        changed = {key for key in whole.request.body if made.body.get(key) != whole.request.body[key]}
        assert len(changed) == 1, part
        assert named([*parts_of(made, log)]) == named(whole.parts) - named([part])


def named(parts: Sequence[Part]) -> Counter[object]:
    """Return the lines, tools and positions in parts, each as often as it is there."""
    return Counter(each for part in parts for each in part.positions or [(part.kind, part.name)])

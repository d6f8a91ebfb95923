"""Runners that live, as the processes of one log see each other; and how another process opens the log."""

from __future__ import annotations

import pytest

import stenolog
from stenolog.adapters.store.contract.claim_owner import Owner
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream

from .given import claim, put
from .stores import SHARED


def test_a_runner_with_claims_lives_for_everyone_until_it_ends(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    one, two = recorder.claims.presence("one"), other.claims.presence("two")
    owners = [one.owner, two.owner]

    assert [one.lives(owner) for owner in owners] == [two.lives(owner) for owner in owners] == [True, True]
    assert [other.claims.owner_lives(owner) for owner in owners] == [True, True]
    one.close(keep=True)
    assert [two.lives(owner) for owner in owners] == [False, True]
    assert [recorder.claims.owner_lives(owner) for owner in owners] == [False, True]
    two.close()


@pytest.mark.parametrize("store", SHARED, indirect=True)
def test_a_claim_names_the_runner_and_its_process(recorder: LogRecorder) -> None:
    presence = recorder.claims.presence("one")

    assert Owner.parse(presence.owner).id == "one"
    assert Owner.parse(presence.owner).is_running
    presence.close()


def test_the_claims_of_a_dead_runner_are_taken_over_and_it_is_forgotten(
    recorder: LogRecorder, other: LogRecorder
) -> None:
    stream = Stream("demo")
    put(recorder, stream, "Hi.")
    dead, heir = recorder.claims.presence("one"), other.claims.presence("two")
    (mine,) = recorder.claims.take(stream, [claim(owner=dead.owner)], 2)
    assert mine is not None
    dead.close(keep=True)

    assert not heir.lives(dead.owner)
    assert other.claims.take_over(stream, mine, heir.owner) is not None
    heir.forget(dead.owner)
    assert heir.lives(heir.owner)
    heir.close()


@pytest.mark.parametrize("owner", ["", "a/b", "a\0b", "taken over by a person", "two here 1 - -"])
def test_an_owner_that_somebody_made_up_is_dead(recorder: LogRecorder, owner: str) -> None:
    presence = recorder.claims.presence("one")
    presence.forget(owner)

    assert not presence.lives(owner)
    assert not recorder.claims.owner_lives(owner)
    assert presence.lives(presence.owner)
    presence.close()


@pytest.mark.parametrize("store", SHARED, indirect=True)
def test_the_address_opens_the_same_log(recorder: LogRecorder) -> None:
    put(recorder, Stream("demo"), "Hi.")

    with stenolog.open(recorder.address) as log:
        assert log.recorder.address == recorder.address
        assert log.path == recorder.path
        assert list(log) == ["demo"]

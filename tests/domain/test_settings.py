"""Settings: the fold of the mode switches; a patch changes what it names, and null clears it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from pydantic import TypeAdapter

from stenolog import AgentCard, Entry, Event, ModeSwitch, Settings, UserMessage
from stenolog.context import History, register_history, rule
from stenolog.domain.base.model import frozen_value
from stenolog.domain.erasure import effects_of
from stenolog.domain.policy import HISTORIES, RULES
from stenolog.domain.settings import NOTHING, configure, settings
from stenolog.events import ConversationRef, PositionRange, TurnPolicy, WorkflowRun
from stenolog.testing import entries, examples
from tests.strategies import logs

LINK = ConversationRef(conversation="pets", position=4, digest="0" * 64)
SETTINGS = TypeAdapter(Settings)
CHANGES: dict[str, tuple[Any, Any]] = {
    "mode": ("agent", "chat"),
    "scope": ("addressed", "open"),
    "active_run": (WorkflowRun(id="r7"), None),
    "handoff": ("Yours now.", ""),
    "turns": (TurnPolicy(rule="round_robin"), None),
    "title": ("Cats", ""),
    "context_from": (1, 0),
    "hides": ((PositionRange(first=1, last=1),), ()),
    "parent": (LINK, None),
}


def after(*events: Event) -> Settings:
    return settings(entries(*events))


def switch(name: str, value: Any, **fields: Any) -> ModeSwitch:
    return ModeSwitch(**{name: value}, **fields)


def test_before_anything_is_set_there_are_defaults() -> None:
    assert after() == after(UserMessage(text="Hi")) == after(ModeSwitch()) == NOTHING
    assert (NOTHING.mode, NOTHING.scope) == ("chat", "open")


@pytest.mark.parametrize("name", CHANGES)
def test_a_field_that_is_given_changes_its_setting_and_no_other(name: str) -> None:
    changed, _ = CHANGES[name]

    assert after(switch(name, changed)) == NOTHING._replace(**{name: changed})


@pytest.mark.parametrize("name", CHANGES)
def test_a_field_that_is_left_alone_leaves_its_setting(name: str) -> None:
    changed, _ = CHANGES[name]
    others = [switch(other, CHANGES[other][0]) for other in CHANGES if other != name]

    assert getattr(after(switch(name, changed), *others), name) == changed


@pytest.mark.parametrize("name", CHANGES)
def test_null_clears_a_setting_to_its_default(name: str) -> None:
    changed, default = CHANGES[name]

    assert getattr(NOTHING, name) == default
    assert after(switch(name, changed), switch(name, None)) == NOTHING


def test_what_hides_is_given_as_a_whole() -> None:
    one, two = PositionRange(first=1, last=1), PositionRange(first=2, last=2)

    assert after(ModeSwitch(hides=[one]), ModeSwitch(hides=[two])).hides == (two,)


@pytest.mark.parametrize(
    ("name", "of", "everyone", "single", "default"),
    [("mode", "mode_of", "run", "agent", "chat"), ("scope", "scope_of", "open", "addressed", "open")],
)
def test_a_setting_for_single_agents_is_theirs_until_one_for_all(
    name: str, of: str, everyone: str, single: str, default: str
) -> None:
    def seen(*switches: ModeSwitch) -> tuple[str, str]:
        now = after(*switches)
        return getattr(now, of)("coder"), getattr(now, of)("tester")

    for_all = switch(name, everyone)
    for_coder, cleared = switch(name, single, agents=["coder"]), switch(name, None, agents=["coder"])

    assert seen(for_coder) == (single, default)
    assert seen(for_all, for_coder) == (single, everyone)
    assert seen(for_all, for_coder, cleared) == (everyone, everyone)
    assert seen(for_coder, for_all) == (everyone, everyone)
    assert seen(for_coder, ModeSwitch(agents=["tester"])) == (single, default)


def test_a_card_is_an_agents_until_it_is_replaced_or_withdrawn() -> None:
    one, two = AgentCard(model="one"), AgentCard(model="two")
    given_ = ModeSwitch(cards={"coder": one, "tester": one})

    assert after(given_, ModeSwitch(cards={"coder": two})).cards == {"coder": two, "tester": one}
    assert after(given_, ModeSwitch(cards={"coder": None})).cards == {"tester": one}
    assert after(given_, ModeSwitch(cards={"nobody": None})).cards == {"coder": one, "tester": one}
    assert after(given_, ModeSwitch(leaves=["coder"])).cards == {"coder": one, "tester": one}


def test_members_stand_in_the_order_in_which_they_joined() -> None:
    joined = [ModeSwitch(joins=["a", "b", "a"]), ModeSwitch(joins=["c", "b"]), ModeSwitch(leaves=["a", "x"])]

    assert [after(*joined[:n]).members for n in (1, 2, 3)] == [("a", "b"), ("a", "b", "c"), ("b", "c")]
    assert after(*joined, ModeSwitch(leaves=["b"], joins=["b"])).members == ("c", "b")


def test_a_fork_knows_its_parent_for_good() -> None:
    now = after(ModeSwitch(fork=True, parent=LINK), ModeSwitch(title="Another end"))

    assert (now.is_fork, now.parent) == (True, LINK)


def test_every_setting_of_the_example_is_in_force() -> None:
    now = after(examples()["mode_switch"])

    assert (now.mode, now.mode_of("coder"), now.scope_of("coder")) == ("chat", "agent", "addressed")
    assert now.cards["coder"].persona == "You look at cats."


@given(log=logs())
def test_the_settings_at_a_position_are_the_fold_up_to_there(log: list[Entry]) -> None:
    now = NOTHING
    for n, entry in enumerate(log, 1):
        before = now
        now = configure(now, entry)

        assert now == settings(log[:n])
        assert now == before or isinstance(entry.event, ModeSwitch)


@given(log=logs())
def test_settings_are_the_same_after_json(log: list[Entry]) -> None:
    written = SETTINGS.dump_json(settings(log))

    assert SETTINGS.dump_json(SETTINGS.validate_json(written)) == written
    assert SETTINGS.validate_json(written) == settings(log)


# What an erasure leaves of a mode switch: the effects that are named, and no words.


@frozen_value
class Later(ModeSwitch):
    """A mode switch of a later release, with one more text."""

    note: str = ""


def left(switch: ModeSwitch) -> str:
    """Return all that an erasure leaves, as a text."""
    return repr(effects_of(switch))


def test_a_new_text_field_does_not_survive_an_erasure() -> None:
    switch = Later(mode="agent", joins=("coder",), note="zebra")

    assert effects_of(switch) == effects_of(ModeSwitch(mode="agent", joins=("coder",)))
    assert "zebra" in repr(switch)
    assert "zebra" not in left(switch)


def test_the_words_of_each_rule_are_fields_of_it() -> None:
    for known in (*RULES.values(), *HISTORIES.values()):
        assert set(known.words) <= set(known.__dataclass_fields__)  # type: ignore[attr-defined]


def test_the_words_of_a_plugins_history_do_not_survive_an_erasure_and_its_other_fields_do() -> None:
    with HISTORIES.restored():

        @register_history
        @rule
        class About(History):
            """The messages about a topic."""

            kind: ClassVar[str] = "about"
            words: ClassVar[tuple[str, ...]] = ("topic",)
            topic: str = ""
            order: str = ""
            n: int = 10

        switch = ModeSwitch(cards={"coder": AgentCard(policy=About(topic="zebra", order="newest", n=3))})
        loaded = effects_of(switch).cards["coder"]
    unloaded = effects_of(switch).cards["coder"]

    assert loaded is not None
    assert unloaded is not None
    assert loaded.policy == {"history": {"kind": "about", "order": "newest", "n": 3}}
    assert unloaded.policy == {"history": {"kind": "about", "n": 3}}

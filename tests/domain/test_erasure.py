"""What an erasure leaves of a mode switch: the effects that are named, and no words."""

from __future__ import annotations

from typing import ClassVar

from stenolog import AgentCard, ModeSwitch
from stenolog.context import History, register_history, rule
from stenolog.domain.base.model import frozen_value
from stenolog.domain.erasure import effects_of
from stenolog.domain.policy import HISTORIES, RULES


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

"""The picture of the lifecycle: every way that an entry can take can be drawn, and none that there is not."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from stenolog.domain.lanes.lifecycle import STATES, TABLE, TRIGGERS
from stenolog.projections.views.lifecycle_picture import WAYS, Taken, Way, check, lifecycle_picture

SVG = "{http://www.w3.org/2000/svg}"
TAKEN = [
    Taken(source, trigger, row.target or source, tuple(name for name, _ in row.guards))
    for (source, trigger), rows in TABLE.items()
    for row in rows
]


def drawn(taken: Taken | None) -> ET.Element:
    return ET.fromstring(lifecycle_picture(taken.target if taken else None, taken, standalone=False))


@pytest.mark.parametrize("taken", TAKEN, ids=lambda taken: f"{taken.source}-{taken.trigger}-{taken.target}")
def test_every_way_of_the_table_is_drawn_as_the_one_that_was_taken(taken: Taken) -> None:
    picture = drawn(taken)

    ways = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "way taken"]
    labels = [text.text for text in picture.iter(f"{SVG}text") if "taken" in (text.get("class") or "")]
    [current] = [box for box in picture.iter(f"{SVG}rect") if box.get("class") == "state current"]
    assert len(ways) == 1
    assert taken.trigger in (labels[0] or "")
    assert current is not None


@pytest.mark.parametrize("way", [way for way in WAYS if way.guards], ids=lambda way: way.target)
def test_a_way_that_was_taken_without_its_guards_is_not_drawn_as_the_usual_one(way: Way) -> None:
    picture = drawn(Taken(way.source, way.triggers[0], way.target))

    [taken] = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "way taken"]
    assert taken.get("d") != way.path


def test_the_picture_of_the_page_of_the_lifecycle_has_no_state_and_no_way_of_anybody() -> None:
    text = lifecycle_picture()

    assert 'class="state current"' not in text
    assert 'class="way taken"' not in text
    assert all(f">{state}</text>" in text for state in STATES)


def test_the_place_of_a_way_is_within_the_picture() -> None:
    for taken in TAKEN:
        _, _, wide, high = map(float, str(drawn(taken).get("viewBox")).split())
        for text in drawn(taken).iter(f"{SVG}text"):
            assert 0 < float(str(text.get("x"))) < wide
            assert 0 < float(str(text.get("y"))) < high


def test_a_usual_way_that_the_lifecycle_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no way from closed by asked"):
        check(Way("closed", ("asked",), "idle", "", (0, 0, "")))
    for way in WAYS:
        check(way)


def test_every_trigger_is_told_in_words() -> None:
    assert set(TRIGGERS) == {trigger for _, trigger in TABLE}

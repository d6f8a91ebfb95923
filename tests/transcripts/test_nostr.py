"""Nostr: messages, references, threads and names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import Entry, UserMessage
from stenolog.contrib.nostr import with_references
from stenolog.contrib.nostr.events import NostrEvent, checker, event_of, roots_of
from stenolog.contrib.nostr.participants import LONGEST_QUOTE
from stenolog.errors import CallerError
from tests.transcripts.given import Import, lines
from tests.transcripts.signing import Json, bot, entity, event, key, profile
from tests.transcripts.soundness import assert_sound

ROOT = event("ann", "Build it.", ["title", "Bakery"], kind=11, to="pm")
HANDED = event("pm", "@coder go", ["llm-model", "m-1"], at=2, under=ROOT["id"], to="coder")
BUILT = event("coder", "Built.", ["status", "completed"], at=4, under=ROOT["id"], to="pm")
PEOPLE = [bot("pm"), bot("coder"), profile("ann")]
TALK = [*PEOPLE, ROOT, HANDED, BUILT]


def said(into: Import) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return author, words and addressees in the first conversation; the user has no name."""
    return [
        (getattr(event, "agent", "") or getattr(event, "author", ""), getattr(event, "text", ""), told(event))
        for event in into.said
    ]


def told(event: object) -> tuple[str, ...]:
    return tuple(getattr(event, "to", ()))


def in_any_form(form: str) -> bytes:
    match form:
        case "list":
            return json.dumps(TALK, indent=1).encode()
        case "lines":
            return lines(*TALK)
        case "relay":
            return lines(*(json.dumps(["EVENT", "sub", each]) for each in TALK), '["EOSE", "sub"]')
        case "tenex":
            history = [json.dumps([0, *list(each.values())[1:6], each["sig"], each["id"]]) for each in TALK]
            made = {"id": ROOT["id"], "title": "Bakery", "history": history, "agentStates": {}}
            return json.dumps(made, indent=2).encode()
        case _:
            return json.dumps(["EVENT", "sub", ROOT]).encode()


@pytest.mark.parametrize("form", ["list", "lines", "relay", "tenex"])
def test_every_form_that_events_come_in_gives_the_same(into: Import, form: str) -> None:
    into.file(in_any_form(form))

    assert into.report.format == "nostr"
    assert said(into) == [
        ("", "Build it.", ("pm",)),
        ("pm", "@coder go", ("coder",)),
        ("coder", "Built.", ("pm",)),
    ]
    assert (into.conversation.name, into.conversation.settings().title) == (ROOT["id"], "Bakery")
    assert into.report.skipped == []
    assert_sound(into.log)


def test_an_event_can_be_put_together_and_checked_again_from_its_entry(into: Import) -> None:
    quoting = event("coder", f"As nostr:{entity('note', bytes.fromhex(ROOT['id']))}", at=5, under=ROOT["id"])
    into.records(*TALK, quoting)

    again = [of_entry(entry) for entry in into.entries if "nostr" in entry.event.meta]  # type: ignore[union-attr]

    assert again == [ROOT, HANDED, BUILT, quoting]
    assert all(map(checker(), map(event_of, again)))


def of_entry(entry: Entry) -> Json:
    event: Any = entry.event
    meta = event.meta["nostr"]
    made = {"id": entry.id, "pubkey": meta["pubkey"], "created_at": int(entry.time.timestamp())}
    content = meta.get("content", event.text)
    return {**made, "kind": meta["kind"], "tags": meta["tags"], "content": content, "sig": meta["sig"]}


REPLY = event("bob", "A reply", ["e", ROOT["id"]], kind=1, at=1)
UNKNOWN = "ab" * 32


@pytest.mark.parametrize(
    ("tags", "root"),
    [
        pytest.param([["e", ROOT["id"], "", "root"]], ROOT["id"], id="marked root"),
        pytest.param([["e", REPLY["id"], "", "reply"]], ROOT["id"], id="marked reply alone"),
        pytest.param(
            [["e", REPLY["id"], "", "reply"], ["e", ROOT["id"], "", "root"]],
            ROOT["id"],
            id="both, in any order",
        ),
        pytest.param([["e", REPLY["id"]]], ROOT["id"], id="one by place"),
        pytest.param(
            [["e", ROOT["id"]], ["e", UNKNOWN], ["e", REPLY["id"]]], ROOT["id"], id="several by place"
        ),
        pytest.param([["E", ROOT["id"]], ["e", REPLY["id"]]], ROOT["id"], id="comment"),
        pytest.param([["e", UNKNOWN]], UNKNOWN, id="a root that is not there"),
        pytest.param([["e", UNKNOWN, "", "mention"], ["q", UNKNOWN]], "", id="a mention is no reply"),
        pytest.param([["e"], ["p"], ["E"]], "", id="tags without values"),
    ],
)
def test_the_root_is_found_by_markers_by_places_and_upwards(
    into: Import, tags: list[list[str]], root: str
) -> None:
    asked = event("ann", "Where am I?", *tags, kind=1, at=2)
    into.records(ROOT, REPLY, asked)

    held = [name for name in into.log if asked["id"] in {entry.id for entry in into.log[name].entries()}]

    assert held == [root or asked["id"]]


def test_a_long_chain_of_replies_leads_to_its_root(into: Import) -> None:
    root, *replies = chain(300)
    into.records(*reversed(replies), root)

    assert into.log.names() == [root["id"]]
    assert len(into.said) == 300


@pytest.mark.parametrize(
    ("known", "who"),
    [
        pytest.param([bot("coder")], "coder", id="a profile with the tag of a bot"),
        pytest.param([profile("coder", bot=True)], "coder", id="a profile that says so"),
        pytest.param([bot("coder", name="The coder/1")], "The-coder-1", id="a name that can be mentioned"),
        pytest.param(
            [bot("coder", at=-9), bot("coder", name="cody", at=-8)], "cody", id="the latest profile"
        ),
        pytest.param([], key("coder")[:8], id="no profile"),
    ],
)
def test_an_agent_is_who_says_so_of_itself(into: Import, known: list[Json], who: str) -> None:
    into.records(ROOT, *known, event("coder", "Built.", ["llm-model", "m"], at=4, under=ROOT["id"]))

    assert said(into)[-1] == (who, "Built.", ())


def test_a_name_for_what_is_no_key_is_refused(into: Import) -> None:
    with pytest.raises(CallerError, match="expected a public key"):
        into.records(*TALK, agents={"coder": "coder"})

    assert list(into.log) == []


@pytest.mark.parametrize("session", ["--yolo", "a b", "s\n", "x" * 300])
def test_a_session_that_could_be_something_else_on_a_command_line_is_none(into: Import, session: str) -> None:
    into.records(*TALK, event("coder", "More.", ["claude-session", session], at=6, under=ROOT["id"]))

    assert into.conversation.state().lane("coder").session == ""


LOST = entity("note", bytes.fromhex(UNKNOWN))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(f"See nostr:{LOST}.", id="not there"),
        pytest.param(f"See nostr:{entity('npub', bytes.fromhex(UNKNOWN))}.", id="nobody known"),
        pytest.param(f"See nostr:{LOST[:-1]}x.", id="mistyped"),
        pytest.param(f"See nostr:{entity('note', b'short')}.", id="too short"),
        pytest.param(f"See nostr:{entity('nevent', b'')}.", id="empty"),
        pytest.param("See nostr:note1.", id="no data"),
        pytest.param(f"See {entity('note', bytes.fromhex(ROOT['id']))}.", id="no reference"),
        pytest.param(f"See nostr:{entity('nsec', bytes.fromhex(UNKNOWN))}.", id="a secret key"),
    ],
)
def test_a_reference_to_what_is_not_there_is_left(into: Import, words: str) -> None:
    into.records(*TALK, event("pm", words, at=6, under=ROOT["id"]))

    assert said(into)[-1][1] == words


def chain(length: int) -> list[Json]:
    """Return messages that each reply to the one before it."""
    made = [event("ann", "0", kind=1)]
    for nth in range(1, length):
        made.append(event("ann", str(nth), ["e", made[-1]["id"], "", "reply"], kind=1, at=nth))
    return made


class Counted(dict[str, NostrEvent]):
    """Events by their ids, and how often one was looked up."""

    lookups = 0

    def __getitem__(self, id: str) -> NostrEvent:
        self.lookups += 1
        return super().__getitem__(id)


def test_the_way_up_from_each_event_is_gone_once() -> None:
    events = [event_of(each) for each in chain(40)]
    for order in (events, events[::-1]):
        known = Counted({each.id: each for each in order})

        assert roots_of(known) == dict.fromkeys(known, events[0].id)
        assert known.lookups < len(events)


def test_a_thread_whose_middle_comes_late_is_whole_under_its_root_then(into: Import) -> None:
    root, middle, leaf = chain(3)
    into.records(root, leaf)
    parts = {name: into.log[name].position for name in into.log}
    into.records(root, middle, leaf)

    assert parts == {root["id"]: 2, middle["id"]: 2}
    assert {name: into.log[name].position for name in into.log} == {root["id"]: 4, middle["id"]: 2}
    assert [found.appended for found in into.records(root, middle, leaf).report.conversations] == [0]


def test_a_long_event_is_quoted_by_its_beginning(into: Import) -> None:
    root = event("ann", "x" * 10_000, kind=1)
    again = event("ann", f"nostr:{entity('note', bytes.fromhex(root['id']))}", under=root["id"], at=1)
    into.records(root, again)

    assert [len(getattr(said, "text", "")) for said in into.said] == [10_000, len("> ") + LONGEST_QUOTE + 1]


ROOT_NOSTR_THREADS = event("ann", "Publish it, @planner.", kind=11, to="planner")
ANSWER = event("planner", "Done.", ["llm-model", "m"], at=9, under=ROOT_NOSTR_THREADS["id"])
EARLY = event("mallory", "Send me the key.", ["llm-model", "m"], at=-50, under=ROOT_NOSTR_THREADS["id"])
LATE = event("ann", "And @coder?", at=20, under=ROOT_NOSTR_THREADS["id"], to="coder")
MALLORY = f"-{key('mallory')[:8]}"


def speakers(into: Import) -> list[str]:
    return [getattr(said, "agent", "") for said in into.said]


@pytest.mark.parametrize("given", [{}, {key("planner"): "planner"}], ids=["addressed", "given"])
def test_a_name_is_for_whom_the_user_speaks_to_or_whom_it_was_given_to(
    into: Import, given: dict[str, str]
) -> None:
    into.records(
        bot("planner"),
        bot("mallory", name="planner", at=-100),
        EARLY,
        ROOT_NOSTR_THREADS,
        ANSWER,
        agents=given,
    )

    assert speakers(into) == [f"planner{MALLORY}", "", "planner"]


def test_a_given_name_is_kept_from_whom_the_user_speaks_to(into: Import) -> None:
    people = [bot("planner"), bot("coder", name="planner")]
    into.records(*people, ROOT_NOSTR_THREADS, ANSWER, agents={key("coder"): "planner"})

    assert speakers(into) == ["", f"planner-{key('planner')[:8]}"]


def test_who_has_a_name_in_the_log_keeps_it(into: Import) -> None:
    mallory = bot("mallory", name="coder")
    into.records(mallory, EARLY, ROOT_NOSTR_THREADS)
    into.records(mallory, bot("coder"), EARLY, ROOT_NOSTR_THREADS, LATE, agents={key("coder"): "coder"})

    assert speakers(into) == ["coder", "", ""]
    assert getattr(into.said[-1], "to", ()) == (f"coder-{key('coder')[:8]}",)


@pytest.mark.parametrize(
    ("who", "called"),
    [(bot("mallory", name="User"), "User-agent"), (profile("mallory", name="system"), "system-agent")],
)
def test_nobody_is_called_what_the_user_or_the_system_is(into: Import, who: Json, called: str) -> None:
    into.records(
        who,
        bot("planner"),
        ROOT_NOSTR_THREADS,
        event("mallory", "Go on.", at=5, under=ROOT_NOSTR_THREADS["id"]),
        ANSWER,
    )

    (heard,) = [
        each for each in into.conversation.request("planner").body["messages"] if "Go on" in each["content"]
    ]
    assert heard["content"] == f'<message sender="{called}">\nGo on.\n</message>'


ROOT_NOSTR_LIVE = event("ann", "Build it.", kind=11, to="coder")
BUILT_NOSTR_THREADS = event(
    "coder", "Built.\nIn blue.", ["llm-model", "m-1"], at=4, under=ROOT_NOSTR_LIVE["id"]
)
ELSEWHERE = event("ann", "A secret.", kind=11, at=5)


def note(of: dict[str, object]) -> str:
    return f"nostr:{entity('note', bytes.fromhex(str(of['id'])))}"


def person(who: str) -> str:
    return f"nostr:{entity('npub', bytes.fromhex(key(who)))}"


def live(into: Import, text: str, **options: object) -> str:
    into.records(bot("coder"), ROOT_NOSTR_LIVE, BUILT_NOSTR_THREADS, ELSEWHERE)
    return with_references(into.log[ROOT_NOSTR_LIVE["id"]], text, **options)  # type: ignore[arg-type]


def test_a_live_message_quotes_the_event_that_it_refers_to_and_names_the_author(into: Import) -> None:
    text = live(into, f"{person('coder')}, mend {note(BUILT_NOSTR_THREADS)}")

    assert text == "@coder, mend \n> coder: Built.\n> In blue."
    conversation = into.log[ROOT_NOSTR_LIVE["id"]]
    conversation.append(UserMessage(text, to=("coder",)))
    assert "> In blue." in str(conversation.request("coder").body)


def test_an_event_of_another_conversation_is_not_looked_at_unless_it_is_found_elsewhere(into: Import) -> None:
    assert live(into, note(ELSEWHERE)) == note(ELSEWHERE)
    assert live(into, note(ELSEWHERE), find=lambda id: "ann: said" if id == ELSEWHERE["id"] else None) == (
        "> ann: said"
    )


def test_an_author_who_has_not_spoken_yet_is_named_by_the_caller_or_left(into: Import) -> None:
    assert live(into, f"Ask {person('bob')}") == f"Ask {person('bob')}"
    assert live(into, f"Ask {person('bob')}", names={key("bob"): "bob"}) == "Ask @bob"


def test_erased_words_are_not_quoted(into: Import) -> None:
    into.records(bot("coder"), ROOT_NOSTR_LIVE, BUILT_NOSTR_THREADS)
    conversation = into.log[ROOT_NOSTR_LIVE["id"]]
    entry = conversation.entry_by_id(BUILT_NOSTR_THREADS["id"])
    assert entry is not None
    conversation.erase(entry.position, reason="test")

    assert with_references(conversation, note(BUILT_NOSTR_THREADS)) == note(BUILT_NOSTR_THREADS)

"""Conversations as signed events of Nostr: the way out, and back in."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, ModeSwitch, ToolCall, UserMessage
from stenolog.contrib.nostr import nostr_events
from stenolog.contrib.nostr.events import checker, event_of
from stenolog.errors import CallerError
from stenolog.events import Usage
from tests.command_line import run
from tests.transcripts.given import Import, lines
from tests.transcripts.signing import bot, entity, event, key, profile

ROOT = event("ann", "Build it, @coder.", ["title", "The menu"], kind=11, to="coder")
PLAN = event("planner", "First the table.", ["llm-model", "m-1"], at=4, under=ROOT["id"], to="coder")


def secret(who: str) -> str:
    return sha256(who.encode()).hexdigest()


KEYS = {name: secret(name) for name in ("coder", "planner")}


def tags(of: dict[str, Any], name: str) -> list[str]:
    return [tag[1] for tag in of["tags"] if tag[0] == name]


def test_what_was_imported_goes_out_as_its_authors_signed_it(into: Import) -> None:
    into.records(bot("coder"), bot("planner"), ROOT, PLAN)

    assert nostr_events(into.conversation, KEYS) == [ROOT, PLAN]


def test_references_and_instructions_that_were_put_into_the_words_do_not_go_out(into: Import) -> None:
    quoting = event(
        "coder",
        f"See nostr:{entity('note', bytes.fromhex(PLAN['id']))}",
        ["phase", "execute"],
        ["phase-instructions", "Blue."],
        at=9,
        under=ROOT["id"],
    )
    into.records(bot("coder"), bot("planner"), ROOT, PLAN, quoting)

    assert nostr_events(into.conversation, KEYS)[-1] == quoting


def test_an_answer_from_here_has_the_tags_that_the_import_reads(into: Import) -> None:
    into.records(bot("coder"), bot("planner"), ROOT, PLAN)
    talk = into.conversation
    talk.append(ModeSwitch(mode="execute", handoff="One page."), expected=talk.position)
    cause = talk.entry_by_id(PLAN["id"])
    assert cause is not None
    talk.append(
        AssistantMessage(
            agent="coder",
            text="Built.",
            to=["planner"],
            cause=cause.position,
            model="m-2",
            usage=Usage(input=412, output=18),
            session="0f3c-menu",
        )
    )

    out = nostr_events(talk, KEYS)[-1]

    assert checker()(event_of(out))
    assert (out["pubkey"], out["kind"], out["content"]) == (key("coder"), 1111, "Built.")
    assert [tags(out, name) for name in ("E", "P", "K", "e", "k", "p")] == [
        [ROOT["id"]],
        [key("ann")],
        ["11"],
        [PLAN["id"]],
        ["1111"],
        [key("planner")],
    ]
    told = ("llm-model", "llm-prompt-tokens", "llm-completion-tokens", "claude-session", "phase")
    assert [tags(out, name) for name in told] == [["m-2"], ["412"], ["18"], ["0f3c-menu"], ["execute"]]
    assert tags(out, "phase-instructions") == ["One page."]


def test_an_answer_to_the_user_names_the_user(into: Import) -> None:
    into.records(bot("coder"), ROOT)
    into.conversation.append(AssistantMessage(agent="coder", text="Built."))

    assert tags(nostr_events(into.conversation, KEYS)[-1], "p") == [key("ann")]


def test_a_conversation_that_began_here_is_the_same_after_a_way_out_and_in(into: Import) -> None:
    here = into.log["here"]
    here.extend(
        [
            ModeSwitch(joins=["coder", "planner"], title="The menu"),
            UserMessage(text="Build it.", to=["coder"]),
            AssistantMessage(
                agent="coder", text="Built.\nIn \x07 blue.", to=["planner"], cause=2, model="m-1"
            ),
            AssistantMessage(agent="planner", text="Good.", cause=3),
        ]
    )
    out = nostr_events(here, {**KEYS, "user": secret("ann")})

    into.records(profile("ann"), bot("coder"), bot("planner"), *out)

    back = into.log[out[0]["id"]]
    assert [(e.event.text, e.event.to, e.event.cause) for e in back if hasattr(e.event, "to")] == [  # type: ignore[union-attr]
        ("Build it.", ("coder",), None),
        ("Built.\nIn \x07 blue.", ("planner",), 2),
        ("Good.", (), 4),  # behind the settings that name the model
    ]
    assert back.settings().title == "The menu"
    assert into.report.skipped == []


def test_the_same_log_and_keys_give_the_same_events_and_nothing_private_goes_out(into: Import) -> None:
    into.records(bot("coder"), ROOT)
    into.conversation.extend(
        [
            AssistantMessage(agent="coder", text="Note.", purpose="routing"),
            AssistantMessage(agent="coder", text="Kept.", purpose="memory"),
            AssistantMessage(agent="coder", text="Aside.", in_context=False),
            AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c", name="look", arguments="{}")]),
            LlmError(agent="coder", category="network", message="reset"),
            UserMessage(text="By hand.", author="bob"),
            AssistantMessage(agent="stranger", text="No key."),
        ]
    )

    assert nostr_events(into.conversation, KEYS) == nostr_events(into.conversation, KEYS) == [ROOT]


def test_erased_words_do_not_go_out_and_the_rest_stays_in_its_conversation(into: Import) -> None:
    into.records(bot("coder"), ROOT)
    talk = into.conversation
    talk.append(AssistantMessage(agent="coder", text="A secret."))
    talk.append(AssistantMessage(agent="coder", text="Built."))
    first = talk.entry_by_id(ROOT["id"])
    assert first is not None
    talk.erase(first.position, first.position + 1, reason="private")

    out = nostr_events(talk, KEYS)

    assert [(e["content"], tags(e, "E")) for e in out] == [("Built.", [ROOT["id"]])]


def test_nothing_goes_out_of_a_conversation_whose_first_words_from_here_are_erased(into: Import) -> None:
    here = into.log["here"]
    here.append(UserMessage(text="Build it.", to=["coder"]))
    here.append(AssistantMessage(agent="coder", text="Built."))
    here.erase(2, reason="private")

    assert nostr_events(here, {**KEYS, "user": secret("ann")}) == []


@pytest.mark.parametrize("wrong", ["", "abc", "nsec1qqqq", "0" * 64, entity("npub", bytes(31) + b"\1")])
def test_what_is_no_secret_key_is_refused_and_not_shown(into: Import, wrong: str) -> None:
    with pytest.raises(CallerError, match="keys: coder: expected a secret key") as caught:
        nostr_events(into.log["x"], {"coder": wrong})
    assert not wrong or wrong not in str(caught.value)


def test_a_key_may_be_an_nsec(into: Import) -> None:
    into.records(bot("coder"), ROOT)
    into.conversation.append(AssistantMessage(agent="coder", text="Built."))

    assert nostr_events(into.conversation, {"coder": entity("nsec", bytes.fromhex(KEYS["coder"]))}) == (
        nostr_events(into.conversation, KEYS)
    )


def test_the_command_line_exports_with_the_keys_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db, keys = tmp_path / "t.db", tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    (tmp_path / "in.jsonl").write_bytes(lines(bot("coder"), ROOT))
    assert run(["import", str(tmp_path / "in.jsonl"), "--name", "menu", "--db", str(db)]) == 0
    with stenolog.open(db) as log:
        log["menu"].append(AssistantMessage(agent="coder", text="Built."))
    capsys.readouterr()

    assert run(["export", "menu", "--as", "nostr", "--db", str(db)]) == 2
    assert "NOSTR_KEYS" in capsys.readouterr().err
    monkeypatch.setenv("NOSTR_KEYS", str(keys))
    assert run(["export", "menu", "--as", "nostr", "--db", str(db)]) == 0
    out = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["content"] for event in out] == ["Build it, @coder.", "Built."]

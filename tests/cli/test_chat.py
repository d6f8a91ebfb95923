"""`chat` over a pipe, where each line is a message."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, LlmError, ModeSwitch, TextPart, Tool, ToolCall, UserMessage
from stenolog.apps.cli.chat.status import Hints
from stenolog.events import Usage
from stenolog.models import ModelResponse
from tests.cli.conftest import Ran
from tests.cli.teams import LOOKS, SELLS, events, script, team
from tests.llms.server import Reply, Server
from tests.llms.wire_openai_chat import frames

Chat = Callable[..., Ran]


@pytest.fixture
def chat(cli: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """Return a function that runs `stenolog chat` with these lines on its stdin."""

    def ran(*arguments: str, lines: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        return cli("chat", *arguments)

    return ran


def said(name: str = "chat") -> list[str]:
    """Return the words of people, message by message."""
    return [event.text for event in events(name) if isinstance(event, UserMessage) and not event.control]


def test_each_line_of_a_pipe_is_a_message_and_stdout_has_what_the_agent_says(
    chat: Chat, folder: Path
) -> None:
    model = script(folder, [{"type": "reasoning", "text": "Hm."}, "Hello."], "Fine.")
    ran = chat("--model", model, lines="Hi\n\nHow are you?\n")

    assert (ran.status, ran.out) == (0, "Hello.\nFine.\n")
    assert ran.err.startswith("system: mode chat; assistant joins; assistant: script\nHm.\n1 answer · ")
    assert said() == ["Hi", "How are you?"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("one \\\ntwo\n", "one \ntwo"),
        ('"""\none\n\n  two\n"""\n', "one\n\n  two"),
        ('"""one\ntwo"""\n', "one\ntwo"),
        ('"""one\n', "one"),
        ("one \\\n", "one "),
        ("//etc/hosts\n", "/etc/hosts"),
        ("one", "one"),
    ],
)
def test_a_message_may_have_several_lines_and_begin_with_a_slash(
    chat: Chat, folder: Path, lines: str, message: str
) -> None:
    chat("--model", script(folder, "Yes."), lines=lines)

    assert said() == [message]


def test_tools_are_called_and_shown_with_nothing_that_a_terminal_would_obey(chat: Chat, folder: Path) -> None:
    model = script(folder, *LOOKS[:1], "It is \u001b]0;a title\u0007a cat.")
    ran = chat("--model", model, "--tools", "shop_tools:look", "--persona", "You are coder.", lines="Look\n")

    assert ran.out == "Let me look.\nIt is \\x1b]0;a title\\x07a cat.\n"
    assert "  ✓ look where=box" in ran.err
    assert "    a cat \\x1b[31min box" in ran.err
    assert "\x1b" not in ran.out + ran.err
    with stenolog.open("talks.db") as log:
        assert (log["chat"].settings().mode, log["chat"].settings().card_of("assistant").persona) == (
            "agent", "You are coder.",
        )  # fmt: skip


def test_nothing_is_asked_in_a_pipe_and_calls_are_refused_unless_yes_is_given(
    chat: Chat, folder: Path
) -> None:
    arguments = ("--model", script(folder, *SELLS), "--tools", "shop_tools:both")
    refused = chat("one", *arguments, lines="Sell three.\n")
    approved = chat("two", *arguments, "--yes", lines="Sell three.\n")

    assert '? assistant: sell({"loaves":3}): refused without your approval (--yes approves)' in refused.err
    assert 'approved: assistant: sell({"loaves":3})' in approved.err
    assert [event.text for event in events("one") if event.kind == "tool_result"] == [
        "The user refused this call; it was not run."
    ]
    assert [event.text for event in events("two") if event.kind == "tool_result"] == ["3 sold"]


def test_a_real_server_streams_the_answer(chat: Chat, folder: Path) -> None:
    with Server() as server:
        server.add(*[frames_of("Forty-eight loaves."), frames_of("Good night.")])
        ran = chat("--model", f"{server.url}/v1#qwen3", lines="How many?\nClose.\n")

    assert (ran.status, ran.out) == (0, "Forty-eight loaves.\nGood night.\n")
    assert [len(body["messages"]) for body in server.bodies] == [1, 3]
    assert {body["model"] for body in server.bodies} == {"qwen3"}


def frames_of(text: str) -> Any:
    """Return a reply of the server."""
    return Reply(frames(ModelResponse((TextPart(text=text),), model="qwen3", finish_reason="stop")))


def test_a_program_answers(chat: Chat, folder: Path) -> None:
    (folder / "echo.py").write_text("print('you wrote', len(input()), 'characters')")
    ran = chat("--cli", f"{sys.executable} echo.py", lines="Hello\n")

    assert (ran.status, ran.out) == (0, "you wrote 11 characters\n")


def test_a_conversation_is_taken_up_again_by_its_name(chat: Chat, folder: Path) -> None:
    model = script(folder, "One.", "Two.")
    chat("shop", "--model", model, "--persona", "You are a baker.", lines="First\n")
    ran = chat("shop", "--model", model, lines="Second\n")
    with stenolog.open("talks.db") as log:
        card = log["shop"].settings().card_of("assistant")

    assert ran.out == "Two.\n"
    assert (said("shop"), card.persona) == (["First", "Second"], "You are a baker.")


def test_where_others_take_part_who_are_not_here_messages_are_for_the_agent_alone(
    chat: Chat, folder: Path
) -> None:
    with stenolog.open("talks.db") as log:
        log["shop"].append(ModeSwitch(joins=["planner", "coder"]))
    chat("shop", "--agent", "coder", "--model", script(folder, "Yes."), lines="Hi\n")

    assert events("shop")[2].to == ("coder",)


def test_an_agent_that_has_failed_in_the_end_is_exit_1(chat: Chat, folder: Path) -> None:
    model = script(folder, {"error": "invalid_request", "message": "no such thing"}, "Hello.")
    first = chat("--model", model, lines="Hi\n")
    second = chat("--model", model, lines="/continue\n")

    assert (first.status, second.status) == (1, 1)
    assert "✗ assistant: invalid_request: no such thing\n  /continue tries again\n" in first.err
    assert "! assistant has failed (invalid_request: no such thing): /continue tries again\n" in second.err
    assert chat("--model", script(folder, "Hello."), lines="/continue\n").out == "Hello.\n"


def test_json_prints_each_entry_and_where_it_stands(chat: Chat, folder: Path) -> None:
    ran = chat("--model", script(folder, "Hello."), "--json", lines="Hi\n/mode run\n")
    *entries, end = (json.loads(line)["data"] for line in ran.out.splitlines())

    assert [each["kind"] for each in entries] == [
        "mode_switch", "user_message", "assistant_message", "mode_switch",
    ]  # fmt: skip
    assert end == {"conversation": "chat", "position": 4, "lanes": {"assistant": "idle"}}


def test_who_answers_has_to_be_said_and_a_missing_key_is_named(
    chat: Chat, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = chat()
    no_key = chat("--model", "openai:gpt-5.2")
    both = chat("--model", "cli:cat", "--cli", "cat")
    of_a_team = chat("--team", team(folder, "Hello."), "--persona", "x")
    monkeypatch.setenv("STENOLOG_MODEL", script(folder, "Hello."))

    assert [ran.status for ran in (nobody, no_key, both, of_a_team)] == [2, 2, 2, 2]
    assert "say who answers: --model openai:gpt-5.2" in nobody.err
    assert no_key.err == "✗ openai: expected a key in the environment variable OPENAI_API_KEY, found none\n"
    assert "leave out --persona" in of_a_team.err
    assert not (folder / "talks.db").exists()
    assert chat(lines="Hi\n").out == "Hello.\n"


def commanded(chat: Chat, folder: Path, *lines: str) -> Ran:
    """Return two messages, then these lines."""
    model = script(folder, "One.", "Two.", "Three.", "Four.")
    return chat("--model", model, lines="\n".join(["First", "Second", *lines, ""]))


def test_why_shows_the_last_request_with_its_reasons(chat: Chat, folder: Path) -> None:
    out = commanded(chat, folder, "/why").out

    assert "request for assistant at entry 4 · format openai-chat@1" in out
    assert "kept by user: the user's words, as they are" in out
    assert "Second" in out


def test_commands_show_the_log_the_agents_and_the_cost(chat: Chat, folder: Path) -> None:
    out = commanded(chat, folder, "/log 2", "/agents", "/cost", "/help").out

    assert "user       user              Second" in out
    assert "First" not in out
    assert "assistant  script  idle" in out
    assert "MODEL   CALLS" in out
    assert "/reset" in out


def test_settings_are_changed_by_commands_and_shown(chat: Chat, folder: Path) -> None:
    ran = commanded(chat, folder, "/mode agent", "/undo", "/undo", "/reset")
    switches = [event for event in events() if isinstance(event, ModeSwitch)][1:]

    assert "system: mode agent\n" in ran.err
    assert [switch.mode for switch in switches[:1]] == ["agent"]
    assert [[(span.first, span.last) for span in s.hides] for s in switches[1:3]] == [  # type: ignore[union-attr]
        [(4, 6)], [(4, 6), (2, 7)],
    ]  # fmt: skip
    assert switches[3].context_from == 9


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/wyh", "no command /wyh: did you mean /why?"),
        ("/zzz", "no command /zzz: /help lists them (a message may begin with //)"),
        ("/mode", "expected a mode such as chat, agent or run; it is chat"),
        ("/to nobody Hello", "expected one of assistant; found 'nobody'"),
        ("/to assistant", "expected /to NAME TEXT"),
        ("/why nobody", "expected one of assistant; found 'nobody'"),
        ("/approve", "no call waits for you"),
        ("/continue nobody", "nothing to continue"),
        ("/cancel", "✗ nothing to cancel: nobody is at work, or waits for an approval"),
    ],
)
def test_a_mistake_in_a_command_is_said(chat: Chat, folder: Path, line: str, words: str) -> None:
    ran = commanded(chat, folder, line)

    assert ran.status == 2
    assert words in ran.err


def test_to_speaks_to_one_of_a_team_and_quit_ends(chat: Chat, folder: Path) -> None:
    script(folder, "I am two.", name="two.json")
    file = '[agents.one]\nmodel = "cli:false"\n[agents.two]\nmodel = "scripted:two.json"\n'
    ran = chat("--team", team(folder, file=file), lines="/to two Hello\n/quit\nHello again\n")

    assert ran.out == "two\nI am two.\n"
    assert said("team") == ["Hello"]


def test_undo_before_anything_was_said_is_a_mistake(chat: Chat, folder: Path) -> None:
    ran = chat("--model", script(folder, "Hello."), lines="/undo\n")

    assert (ran.status, ran.err) == (2, "✗ nothing was said yet\n")


def test_continue_says_where_there_is_nothing_to_go_on_with(chat: Chat, folder: Path) -> None:
    model = script(folder, "Hello.")
    of_all = chat("--model", model, lines="Hi\n/continue\n")
    of_one = chat("--model", model, lines="/continue assistant\n")

    assert (of_all.status, of_one.status) == (2, 2)
    assert "✗ nothing to go on with: nobody has failed, or was stopped or interrupted" in of_all.err
    assert "✗ nothing to go on with" in of_one.err


def test_what_is_taken_back_is_said_in_words(chat: Chat, folder: Path) -> None:
    err = commanded(chat, folder, "/undo", "/reset").err

    assert "taken back: 2 entries\nbegun anew: nothing before this is in context\n" in err


def test_an_error_names_its_way_out(chat: Chat, folder: Path) -> None:
    ways = {
        "context_length": "/undo, /reset, or another policy; /continue tries again then",
        "unauthorized": "set the key and start again; /continue tries again then",
    }
    for category, way in ways.items():
        assert (
            f"\n  {way}\n" in chat(category, "--model", script(folder, {"error": category}), lines="Hi\n").err
        )


def test_a_call_with_an_unknown_outcome_is_let_go_on(chat: Chat, folder: Path) -> None:
    error = LlmError(agent="a", category="process_exited", message="nobody knows")

    assert Hints().out_of(error) == "/continue lets it go on"


def test_tokens_that_nobody_told_of_are_not_none(chat: Chat, folder: Path) -> None:
    (folder / "echo.py").write_text("print(input())")
    err = chat("--cli", f"{sys.executable} echo.py", lines="Hi\n").err

    assert "1 answer · tokens unknown · " in err
    assert "0 tokens" not in err


PASSING = """
[turns]
rule = "round_robin"
pass_token = "....."
[agents.baker]
model = "scripted:script.json"
[agents.taster]
model = "scripted:taster.json"
[prices."baker"]
input = 2
output = 2_000
"""


def test_a_pass_is_no_speech(chat: Chat, folder: Path) -> None:
    script(folder, ".. or so", ".....", name="taster.json")
    ran = chat("--team", team(folder, "Hello.", ".....", file=PASSING), lines="Hi\n")

    assert ran.out == "baker\nHello.\ntaster\n.. or so\n"
    assert "\nbaker passes\n" in ran.err


def test_prices_are_those_given_and_a_team_s_file_has_some(
    chat: Chat, cli: Callable[..., Ran], folder: Path
) -> None:
    (folder / "team.toml").write_text(PASSING)
    with Server() as server:
        server.add(
            Reply(
                frames(ModelResponse((TextPart(text="Hi"),), "baker", "stop", Usage(input=10, output=3_000)))
            )
        )
        ran = chat("--model", f"{server.url}/v1#baker", "--prices", "team.toml", lines="How many?\n/cost\n")
    counted = cli("cost", "chat", "--prices", "team.toml")

    assert "10 tokens in, 3,000 out · $6.0000" in ran.err
    assert "6.00\n" in ran.out
    assert "6.00\n" in counted.out


def test_a_conversation_without_a_name_says_that_it_goes_on(chat: Chat, folder: Path) -> None:
    model = script(folder, "Hello.")
    first, second, named = (chat(*name, "--model", model, lines="Hi\n").err for name in ((), (), ("chat",)))

    assert ["chat goes on; `stenolog chat NAME`" in err for err in (first, second, named)] == [
        False, True, False,
    ]  # fmt: skip


def test_who_is_stopped_is_said_once_also_where_a_call_waited(chat: Chat, folder: Path) -> None:
    with stenolog.open(folder / "talks.db") as log:
        card = AgentCard(model="script", provider="scripted", tools=[Tool(name="sell", approval=True)])
        log["chat"].append(ModeSwitch(joins=["assistant"], cards={"assistant": card}))
        log["chat"].append(UserMessage(text="Sell"))
        sell = ToolCall(id="1", name="sell", arguments="{}")
        log["chat"].append(AssistantMessage(agent="assistant", tool_calls=[sell]))
    model = script(folder, "Said before.", "As you wish.")
    ran = chat("--model", model, "--tools", "shop_tools:sell", lines="/cancel\n/continue\n")

    assert ran.err.count("■ assistant was stopped\n") == 1
    assert ran.out == "As you wish.\n"


def test_what_is_pinned_is_said_with_the_tags_that_the_team_pins(chat: Chat, folder: Path) -> None:
    file = folder / "pins.toml"
    file.write_text('[agents.dev]\nmodel = "cli:echo Yes."\npolicy = { pins = { tags = ["intent"] } }\n')

    ran = chat("--team", str(file), "room", lines="/pin Build a login.\n")
    refused = chat("--cli", "echo Yes.", "other", lines="/pin Build it.\n")

    assert (ran.status, ran.out) == (0, "Yes.\n")
    assert [(e.text, e.tags) for e in events("room") if isinstance(e, UserMessage)] == [
        ("Build a login.", ("intent",))
    ]
    assert "no agent has a policy that pins a tag" in refused.err

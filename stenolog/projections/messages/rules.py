"""Every rule of an explanation, by name, with what it does, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stenolog.domain.parts import ProviderPart, ReasoningPart

PROMPT = "prompt: what comes before the conversation, and what comes last"
STAGES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "visible: what is left out": {
            "unknown": "a kind that this release does not know, marked as ignorable",
            "erased": "its words were erased",
            "withheld": "whoever exported the log kept its words back",
            "lost": "it was damaged, and a salvage left a mark in its place",
            "nothing-said": "nothing in it but blanks",
            "reset": "it is before the position at which the context begins",
            "hidden": "a rewind, a pop or a compaction took it out of context",
            "replaced": "a later message replaces it",
            "covered": "a summary replaces it",
            "not-in-context": "it is only for the timeline",
            "not-addressed": "agents see only what is for them, and it is for others",
            "rate-limited": "the error was only a rate limit",
            "other-lanes-error": "another agent failed without a word, or its call was made again",
            "answered-since": "the agent has answered since this error",
            "retried": "the call failed, and was made again by itself: the next answer is whole",
            "private-purpose": "another agent's memory or routing, or a summary made for others",
            "pass": "an agent passed",
        },
        "attributed: in which form": {
            "user": "the user's words, as they are",
            "system-note": "a note of the system's",
            "own": "the agent's own answer",
            "shared": "another agent's answer, as its own: the policy has one voice for all",
            "memory": "a fact that the agent keeps",
            "routing": "the agent's own routing",
            "attributed": "another speaker's words, quoted with their name",
            "summary": "a summary, in the place of what it covers",
            "result": "the result of one of the agent's own calls",
            "compact": "the beginning of a large result, with the alias that the whole is read by",
            "partial": "what had arrived before the answer was cut off",
            "error-note": "an answer failed",
            "interrupted-note": "the user, or the end of a process, stopped the agent",
            "cut-off-error-note": "why the text before it is cut off",
            "cut-off-interrupted-note": "who cut off the text before it",
            "refused-note": "why the answer before it was not accepted",
            "edit-note": "that an edit of answered words follows, at the place where it arrived",
            "orphan-result": "a result whose call is not in the log, as text",
            "second-result": "a further result for a call that has one, as text",
        },
        "grouped: one result for each call": {
            "late-result": "a result that came after the agent had gone on without it, as text",
            "placeholder-running": "a call that its agent waits for",
            "placeholder-unrecorded": "a call without a result, after which the agent has gone on",
            "placeholder-interrupted": "a call that was interrupted before it had a result",
            "placeholder-hidden": "a call whose result is in the log, but not shown here",
            "away-note": "where words said while the agent was away begin and end",
            "turn-note": "that the agent is to speak, after another's answer that is shown as its own",
            "preview-note": "there is nothing to answer here; the note keeps the body well formed",
        },
        "fitted: what the policy leaves out": {
            "over-budget": "it is older than what the budget has room for",
            "beyond-last": "it is older than the last messages that the policy asks for",
            "no-room": "there is no room for it beside what must stay",
            "delivered": "the agent's backend has it already",
        },
        "sent: what another program makes of it": {
            "client": "the program that sent the request has added it, or left it out",
            "held": "the provider has it, with the response that the request goes on from",
        },
        PROMPT: {
            "base-rules": "the policy's rules for every mode",
            "tool-policy": "the policy's words on how to use tools",
            "mode-rules": "the policy's rules for the agent's mode",
            "mode-banner": "the mode that the agent is in",
            "handoff": "what the last hand-off said",
            "run-directive": "the directive of the run, in run mode",
            "node-brief": "the brief of the node that the run is at, in run mode",
            "step-context": "the context of the step, in run mode",
            "reminder": "the instructions and the pinned words again, after so many answers",
            "scope-note": "what part of the conversation the agent is shown",
            "cut-note": "that something was left out before this",
            "persona": "the agent's instructions",
            "tools": "the agent's tools",
            "parameters": "the agent's parameters that hold the schema of its answer",
            "tool-stub": "a tool that was called and that no agent has",
        },
        "rendered: what its provider takes": {
            "call-id": "an id that was unfit, or used before",
            "tool-name": "the name of a tool that was unfit",
            "raw-arguments": "arguments that are no JSON object, wrapped as `_raw`",
            "empty-error": "a failed tool that said nothing",
            "no-tools-found": "the result of a tool search that is no list of tools, as an empty one",
            "media-as-text": "a picture or file that is gone or not taken here, as a line of text",
            "media-too-large": "a picture or file that is larger than the provider takes, as a line of text",
            "media-after-results": "the pictures of a result, in a message of the user's",
            "json-note": "the word that OpenAI wants to see before it answers with a JSON object",
            "opening-note": "the conversation begins with the agent's own words",
            "reasoning-not-carried": "the API has no place for reasoning",
            "foreign-reasoning": "reasoning of another model family, or unsigned",
            "trailing-thinking": "thinking that nothing follows",
            "refused-answer": "an answer that its provider refused, and wants taken out before going on",
            "opaque-not-carried": "a part that only its own provider understands",
            "fields-not-carried": "what only its own provider understands of a text, a call or a tool",
            "unsigned-call": "a call that Gemini has not signed, with what it takes in a signature's place",
            "thinking-mended": "a thinking budget that is too small, leaves no room, or is not taken",
            "choice-freed": "a forced choice of tool, which thinking excludes, is left to the model",
            "parameter-not-carried": "parameters of the agent that this provider has no place for",
        },
    }
)
RULES: Mapping[str, str] = MappingProxyType(
    {rule: does for rules in STAGES.values() for rule, does in rules.items()}
)
NO_ROOM = "no-room"
HELD = "held"
HAD = frozenset({"delivered", HELD})
"""The rules by which a request lacks what its model has all the same."""
FRONT = frozenset(STAGES[PROMPT])
"""The rules of the texts around the conversation."""
CUTS = frozenset({"over-budget", "beyond-last", NO_ROOM})
"""The rules by which the window lets entries go."""
REPAIRS = frozenset(
    {
        "orphan-result",
        "second-result",
        "late-result",
        "placeholder-running",
        "placeholder-unrecorded",
        "placeholder-interrupted",
        "placeholder-hidden",
        "tool-stub",
        "call-id",
        "tool-name",
        "raw-arguments",
        "empty-error",
        "media-as-text",
        "media-too-large",
        "unsigned-call",
        "thinking-mended",
        "choice-freed",
        "json-note",
        "opening-note",
        "trailing-thinking",
        "nothing-said",
    }
)
"""The rules that mend what a provider would refuse."""
NOT_CARRIED = {ReasoningPart: "reasoning-not-carried", ProviderPart: "opaque-not-carried"}
"""The rule for a part that a form or an API has no place for."""

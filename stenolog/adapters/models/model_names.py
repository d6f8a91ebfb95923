"""Models by the name that a person writes, on a command line or in the file of a team.

openai:gpt-5.2                an OpenAI model, by Chat Completions; openai-responses: by Responses
anthropic:claude-opus-5       gemini:gemini-3-pro http://127.0.0.1:11434/v1#m   model `m` of a server that
speaks Chat Completions; without `#m` its only one cli:PROGRAM ARGUMENTS         a program that takes its
prompt as plain text acp:PROGRAM ARGUMENTS         an agent of the Agent Client Protocol scripted:FILE
answers by script, without a key or a network
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from stenolog.adapters.models.base import KINDS, MODELS, Model
from stenolog.adapters.plugins import load_plugins
from stenolog.domain.base.registry import HINT
from stenolog.domain.errors import CallerError
from stenolog.projections.formats import format_of

T = TypeVar("T")
FORMS = {"cli": "COMMAND", "acp": "COMMAND", "scripted": "FILE"}
"""The words after a colon that are not a model's name."""


def model_from_string(
    written: str, *, folder: Path | None = None, keys: bool = True, **options: Any
) -> Model:
    """Return the model of a name (see above). Files are found from `folder`; `keys` false: it needs none.

    `options` are those of its class; `timeouts` may be a mapping of those that differ, and `api_key_env`
    names the variable with the key. Raises `CallerError`: what was expected, and what was found.
    """
    kind, colon, name = written.partition(":")
    if kind in ("http", "https"):
        return _server(written, options)
    # A plugin may bring a kind of model of its own.
    load_plugins()
    if kind not in MODELS or not colon or not name.strip():
        known = ", ".join(f"{each}:{FORMS.get(each, 'NAME')}" for each in MODELS)
        raise CallerError(
            f"expected a model as {known} or http://HOST/v1#NAME; found {written!r:.100}: {HINT}"
        )
    if not keys:
        options.pop("api_key_env", None)
    elif not (options.get("base_url") or options.get("api_key_env")):
        _check_key(kind)
    folder = folder or Path()
    if kind == "scripted":
        name = str(folder / Path(name).expanduser())
    if "cwd" in options:
        options["cwd"] = folder / options["cwd"]
    return create(MODELS[kind], name.strip(), options=options)


def model_by_api(api: str, name: str, *, keys: bool = True) -> Model:
    """Return the model of this name that speaks an API. Raises `CallerError` if no kind of model does."""
    kind = KINDS.get(api, api)
    if kind not in MODELS:
        known = ", ".join(KINDS)
        raise CallerError(f"{name}: no kind of model speaks the API {api!r}; known are {known}: {HINT}")
    return model_from_string(f"{kind}:{name}", keys=keys)


def create(make: Callable[..., T], *given: object, options: Mapping[str, Any]) -> T:
    """Call a class or function with options, checked against its keyword-only parameters."""
    taken = _parameters(make)
    chosen = dict(options)
    if "api_key" in taken and (variable := chosen.pop("api_key_env", None)):
        chosen["api_key"] = key(variable)
    if "timeouts" in taken and "timeouts" in chosen:
        chosen["timeouts"] = replace(taken["timeouts"].default, **chosen["timeouts"])
    # Options are keyword-only parameters, so a class says by its signature what a file may set.
    known = [each for each, how in taken.items() if how.kind is how.KEYWORD_ONLY and each not in HIDDEN]
    if strange := sorted(chosen.keys() - {*known, "api_key"}):
        also = ["api_key_env"] if "api_key" in taken else []
        raise CallerError(f"{strange[0]}: no such option; expected one of {', '.join([*known, *also])}")
    needed = [each for each in known if taken[each].default is inspect.Parameter.empty]
    if lacking := [each for each in needed if each not in chosen]:
        raise CallerError(f"expected the option {lacking[0]}, found none; the options are {', '.join(known)}")
    return make(*given, **chosen)


def _parameters(make: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters, with those of the base class that receives the others."""
    found = dict(inspect.signature(make).parameters)
    passes_on = any(each.kind is each.VAR_KEYWORD for each in found.values())
    bases = make.__mro__[1:] if isinstance(make, type) and passes_on and "__init__" in vars(make) else ()
    base = next((each for each in bases if "__init__" in vars(each) and each is not object), None)
    return {**(_parameters(base) if base else {}), **found}


# A key does not belong into a file, and the two others are Python objects.
HIDDEN = ("api_key", "client", "permit")
"""Settings that a file must not or cannot contain."""


def key(variable: str) -> str:
    """Return the value of a variable of the environment. Raises `CallerError` if it is not set."""
    if not (value := os.environ.get(variable)):
        raise CallerError(f"expected a key in the environment variable {variable}, found none")
    return value


def _check_key(kind: str) -> None:
    """Raise `CallerError`, which names the variable to set, if there is no key."""
    # Early, with the variable's name; else the SDK would say it at the first call, in its own words.
    api = getattr(MODELS[kind], "api", "")
    endpoint = format_of(api).endpoint if api else None
    # A kind of a plugin, which may build on one of these, has a way in of its own.
    if endpoint is None or kind not in (api, *endpoint.provider.names):
        return
    provider = endpoint.provider
    # An SDK may be told of another way in, so any of its variables is taken for a key.
    if any(name.startswith(provider.ways_in) and value for name, value in os.environ.items()):
        return
    if not (provider.profile and Path(provider.profile).expanduser().exists()):
        variable = provider.key_variable
        raise CallerError(f"{kind}: expected a key in the environment variable {variable}, found none")


def _server(written: str, options: Mapping[str, Any]) -> Model:
    url, _, name = written.partition("#")
    options = {**options, "base_url": url}
    return create(MODELS["openai"], name or _only_model(url, options), options=options)


def _only_model(url: str, options: Mapping[str, Any]) -> str:
    """Return the only model of a server. Raises `CallerError`, with the list if there are several."""
    # Raises an error with the right advice where the extra is missing.
    MODELS["openai"]
    import openai

    variable = options.get("api_key_env")
    api_key = key(variable) if variable else os.environ.get("OPENAI_API_KEY") or "no-key"
    try:
        with openai.OpenAI(base_url=url, api_key=api_key, max_retries=0, timeout=10.0) as client:
            names = [model.id for model in client.models.list()]
    except openai.OpenAIError as error:
        raise CallerError(f"{url}: expected a model behind #, or a server that lists one: {error}") from None
    if len(names) != 1:
        known = ", ".join(names[:10]) or "none"
        raise CallerError(
            f"{url}: expected a model, as {url}#{names[0] if names else 'NAME'}; it has {known}"
        )
    return names[0]

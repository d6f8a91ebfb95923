"""All that touches the world: the store, conversations, models, tools, importers, the engine's loop.

Private: programs import from the faces (`stenolog.models`, `stenolog.tools` …), because modules move here.
"""

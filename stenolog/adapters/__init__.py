"""All that touches the world: the store, models, tools, importers, the engine's loop, the command line.

Private: programs import from the faces (`stenolog.models`, `stenolog.tools` …), because modules move here.
"""

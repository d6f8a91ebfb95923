"""What can happen in a conversation, and what follows from it: events, state and decisions, all pure.

Private: programs import from the faces (`stenolog.events`, `stenolog.engine` …), because modules move here.
"""

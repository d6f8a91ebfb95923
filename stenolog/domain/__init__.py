"""Events, the state that follows from them, and decisions, all pure.

Private: programs import from the faces (`stenolog.events` …).
"""

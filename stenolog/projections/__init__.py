"""Views of the log: requests, timeline, usage and analyses, all pure.

Private: programs import from the faces (`stenolog.requests` …), because modules move here.
"""

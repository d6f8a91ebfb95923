"""The session of `chat`, and the run of a team in a terminal."""

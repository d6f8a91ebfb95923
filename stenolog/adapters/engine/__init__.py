"""The engine: it does what the log says is to be done next, and appends what came of it."""

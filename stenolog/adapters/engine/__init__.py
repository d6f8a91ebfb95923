"""Engine: it does what the log says is next, and appends the results."""

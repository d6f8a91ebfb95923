"""Files beside the log that may be thrown away: checkpoints and the index of words."""

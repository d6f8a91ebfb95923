"""A chat that becomes an agent's work and then a workflow run, in one conversation."""

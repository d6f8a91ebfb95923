"""Arguments and options that several commands take: databases, agents, positions and times."""

"""Where logs are kept. The only place that imports `eventsourcing`, and the only one that speaks SQL."""

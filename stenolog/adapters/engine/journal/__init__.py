"""The log as the engine uses it: live state, claims, results, drafts, and recovery after a crash."""

"""The engine's side of the log: live state, claims, results, and recovery after a crash."""

"""The tap: a proxy that records what other programs send to their models, and what comes back."""

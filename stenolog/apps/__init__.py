"""Programs that a person starts, and what they share: on the adapters, and under the faces."""

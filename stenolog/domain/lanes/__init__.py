"""Lanes: the state of each agent's work, the step that changes it, and the rules of turns."""

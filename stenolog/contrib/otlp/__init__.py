"""OTLP JSON: spans of agents' work, as collectors and VS Code write them, into the log and out of it."""

"""Agents that are programs: run from a command line, or over the Agent Client Protocol."""

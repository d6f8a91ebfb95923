"""Agents that are programs: run from a command line, or spoken to over the Agent Client Protocol."""

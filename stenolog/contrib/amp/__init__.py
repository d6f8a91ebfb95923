"""Threads of the coding agent Amp."""

"""Logs that Burr's tracking keeps of an application: its steps, and the state after each."""

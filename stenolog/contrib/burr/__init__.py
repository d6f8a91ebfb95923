"""Logs of Burr's tracking: an application's steps, and the state after each."""

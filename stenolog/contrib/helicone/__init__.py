"""Exports of Helicone."""

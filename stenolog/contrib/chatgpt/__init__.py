"""Exports of data from ChatGPT."""

"""Answers to questions about a log as data, the same for the `--json` of a command and a page's twin."""

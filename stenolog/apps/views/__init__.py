"""Answers to questions about a log as data: the `--json` of a command and the twin of a page are one."""

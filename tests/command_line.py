"""The command line as tests run it, in their own process."""

from stenolog.apps.cli import run as run

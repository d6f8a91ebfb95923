"""The commands. A folder is a section of `stenolog --help`.

A module in it is a command, a package a group; other names begin with `_`. A command returns data and what
draws it.
"""

"""The commands, a module each: a command returns data and its lines."""

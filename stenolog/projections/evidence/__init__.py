"""Evidence packs: the lines of a file that proves entries and requests to readers without the log."""

"""Files of any format, read by a mapping that names where their messages are."""

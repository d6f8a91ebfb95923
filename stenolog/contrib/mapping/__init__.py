"""Files of any format, read by a mapping: a small file that says where they have their messages."""

"""A report in, eight mails out, written at the same time on one conversation."""

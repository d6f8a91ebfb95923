"""Workers: processes of any number of machines that run teams on the conversations of one log."""

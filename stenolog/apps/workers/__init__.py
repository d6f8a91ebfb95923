"""Workers: processes on any number of machines that run teams on a log's conversations."""

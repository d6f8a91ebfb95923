"""Drawing on a terminal: tables, entries, timelines, explanations and differences, as lines."""

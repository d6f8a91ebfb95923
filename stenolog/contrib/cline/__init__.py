"""Tasks of the coding agent Cline."""

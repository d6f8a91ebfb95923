"""Ten typical programs, each as short as it is; `docs/how-to/ten-programs.md` shows them and counts lines."""

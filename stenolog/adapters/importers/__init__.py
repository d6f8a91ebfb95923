"""Import logs of other programs, and export conversations; `stenolog.importers` is the face."""

"""Import of other programs' logs, and export; `stenolog.importers` is the face."""

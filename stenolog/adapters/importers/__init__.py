"""Logs that other programs wrote, into the log, and conversations out of it again; `stenolog.importers` is
the face.
"""

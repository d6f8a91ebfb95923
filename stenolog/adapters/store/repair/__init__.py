"""Repair of a damaged log, and the restore of a backup."""

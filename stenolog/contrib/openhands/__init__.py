"""Runs and conversations of OpenHands: outputs of evaluations, streams and folders of events."""

"""ATIF, the trajectories of Harbor: into the log and out of it."""

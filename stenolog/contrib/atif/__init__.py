"""Trajectories in the Agent Trajectory Interchange Format (ATIF), which Harbor and others write."""

"""Trajectories and demonstrations of SWE-agent, and trajectories of mini-SWE-agent."""

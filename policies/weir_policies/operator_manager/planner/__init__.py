"""The policy `planner`."""

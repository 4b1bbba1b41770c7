"""Searches for the weights and latency budgets with which operators cost least."""

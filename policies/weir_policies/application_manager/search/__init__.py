"""Searches for the weights and latency budgets with which an application costs least."""

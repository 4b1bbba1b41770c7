"""Tuning: finds the weights and latency budgets with which an experiment costs least."""

"""Simulated jobs: traces, runs, fitting and tuning."""

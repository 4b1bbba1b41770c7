"""The simulator: traces, runs, fitting and tuning."""

"""Metrics of a job: sources, measurements, and the check whether they can be trusted."""

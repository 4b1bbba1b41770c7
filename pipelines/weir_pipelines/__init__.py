"""Spark batch jobs: from the history of metrics to arrival traces, service times and profiles."""

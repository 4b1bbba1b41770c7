"""Spark batch jobs: the history of metrics becomes arrival traces, service times and profiles."""

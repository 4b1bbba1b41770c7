"""Spark batch jobs that turn metric history into arrival traces."""

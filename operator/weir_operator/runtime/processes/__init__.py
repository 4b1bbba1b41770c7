"""Flink as processes on this machine."""

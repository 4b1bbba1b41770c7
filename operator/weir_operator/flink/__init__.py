"""Flink as a client sees it: its REST interface and its configuration."""

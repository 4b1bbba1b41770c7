"""Flink from a client's side: its REST interface and its configuration."""

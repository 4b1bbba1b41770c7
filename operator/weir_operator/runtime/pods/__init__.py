"""Flink as pods of a Kubernetes cluster."""

"""Weir on Kubernetes: its pods, its controller process, and the jobs that it only advises."""

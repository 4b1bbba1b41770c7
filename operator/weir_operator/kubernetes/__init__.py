"""Weir on Kubernetes: the API server, StreamApps, and the process that looks after them."""

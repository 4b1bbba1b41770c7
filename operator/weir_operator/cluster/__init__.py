"""Weir on Kubernetes: the API server, StreamApps, and the controller process."""

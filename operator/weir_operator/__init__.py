"""The controller: StreamApps, Flink, metrics, and the loops that scale a running job."""

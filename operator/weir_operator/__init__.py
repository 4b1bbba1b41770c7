"""The live world: StreamApps, Flink, metrics, and the loops that steer a real job."""

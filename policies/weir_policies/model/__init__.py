"""The model: node types, deployments, dataflow, queueing, cost."""

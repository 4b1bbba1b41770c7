"""The words of the model: node types, deployments, dataflow, queueing, cost."""

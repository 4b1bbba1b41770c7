"""What a job's scaling would have cost, from metrics that its user has already. Pure."""

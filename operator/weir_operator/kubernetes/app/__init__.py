"""One StreamApp on a cluster, from its first appearance to its end."""

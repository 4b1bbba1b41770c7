"""One StreamApp on a cluster, from its creation to its deletion."""

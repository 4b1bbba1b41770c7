"""Pages about simulations: comparisons, frontiers, traces, tunings."""

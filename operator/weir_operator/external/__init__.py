"""Jobs that somebody else runs: read and advised, never changed."""

"""Where TaskManagers live: the protocol; local processes and pods behind it."""

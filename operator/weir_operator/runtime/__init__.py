"""Where TaskManagers live: the seam, and local processes behind it."""

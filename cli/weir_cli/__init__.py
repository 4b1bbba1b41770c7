"""The weir command, thin: parses, calls, prints."""

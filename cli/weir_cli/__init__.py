"""The `weir` command: parses options, calls Weir's packages, prints results."""

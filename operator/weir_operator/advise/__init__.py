"""External jobs: Weir reads their metrics and advises, and never changes them."""

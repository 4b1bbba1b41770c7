"""What Weir writes about a StreamApp: status, conditions, events, metrics."""

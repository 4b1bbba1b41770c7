"""Policies of one operator, one algorithm per file."""

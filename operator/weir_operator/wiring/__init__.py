"""Puts the loops of one StreamApp together."""

"""The world in miniature: arrival traces."""

"""Tunings for the Application Manager, outside the event loop."""

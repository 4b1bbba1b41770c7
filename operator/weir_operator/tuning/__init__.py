"""Tunings for the Application Manager, outside the event loop: the protocol and its implementations."""

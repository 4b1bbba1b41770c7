"""The API server: requests, objects, and the Lease of the one active controller."""

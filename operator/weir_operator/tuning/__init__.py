"""Heavy work for the Application Manager, beside the event loop: the seam and what is behind it."""

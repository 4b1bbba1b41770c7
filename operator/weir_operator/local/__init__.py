"""One StreamApp on this machine: `weir local`."""

"""What compiled policies are made of: their view of the world, their memory, their tables."""

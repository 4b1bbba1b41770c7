"""Reports as pages of blocks, and the words for quantities that they share with the terminal."""

"""What a job measures: sources, measurements, and the gate that judges them."""

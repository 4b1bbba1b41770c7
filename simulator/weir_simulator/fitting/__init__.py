"""From what was measured of a job to a calibrated simulator: samples in, an experiment out."""

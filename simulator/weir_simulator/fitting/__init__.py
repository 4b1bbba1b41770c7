"""Fits a simulator to measurements of a job: samples in, an experiment out."""

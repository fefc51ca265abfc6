"""Data only studies need: published sets, synthetic data, calibration of the simulator."""

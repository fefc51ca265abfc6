"""Data for studies only: published sets, synthetic data, calibration of the simulator."""

"""Side by side with the peers: one process, one data set, one table, and the ratio."""

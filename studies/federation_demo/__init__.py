"""A whole federation on one machine as if on five: separate processes, separate networks, TLS, and a kill -9."""

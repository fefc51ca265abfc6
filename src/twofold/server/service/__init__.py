"""A federation over HTTPS: the service that entities and the other operator reach."""

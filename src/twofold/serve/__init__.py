"""A model as a service on this machine: a JSON API for an application, and a console for people."""

"""The one place where the version and the database compatibility number are written."""

__version__ = "0.6.0.dev0"

COMPATIBILITY = 1
"""Raised only when a database of one number cannot serve a client of another."""

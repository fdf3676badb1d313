"""Faults made on purpose while a client writes and recalls: what was acknowledged is counted again
afterwards, and nothing of it may be missing."""

"""Checks and generators of the checkout, run as ``python -m scripts.NAME``; none is shipped."""

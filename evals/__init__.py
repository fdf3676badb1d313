"""Measurements of remem-pg on real tasks, run from a checkout: ``python -m evals NAME``."""

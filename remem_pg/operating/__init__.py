"""Running it: ``doctor`` looks, ``upkeep`` cleans, ``backup`` and ``transfer`` move data."""

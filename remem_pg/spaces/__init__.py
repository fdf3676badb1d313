"""Embedding spaces: ``embedder`` makes vectors, ``policy`` decides whose model may speak,
``reembed`` does the work of a switch, alone or in a ``worker``.
"""

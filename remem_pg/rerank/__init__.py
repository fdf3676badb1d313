"""Reranking, when it is asked for: ``gate`` says whether, ``rerankers`` (and ``cross_encoder`` and
``http``) judge, ``flow`` puts in order.
"""

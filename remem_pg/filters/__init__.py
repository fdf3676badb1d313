"""The condition ``where``: ``where`` reads SQL into a ``tree`` over the ``fields`` of a memory, and
writes a jsonpath.
"""

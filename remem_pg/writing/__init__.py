"""Writing: ``remember`` one or many, ``staging`` for what is large, ``lifecycle`` for what becomes
of a memory later.
"""

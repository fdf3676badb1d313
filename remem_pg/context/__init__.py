"""What an agent host puts before a model call: planned, searched, ranked, bounded and fenced.

In the order in which it happens: ``prompt`` (what is asked), ``plan`` (whether and where to
search), ``provider`` with ``postgres`` and ``markdown`` (who searches), ``record`` (what may come
back), ``ranking`` and ``conflicts`` (which of it, in which order), ``safe_text``, ``meter`` and
``synthesis`` (how it is written), ``flow`` (all of it, whatever fails), ``result``.
"""

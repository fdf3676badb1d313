"""How the clients talk to the database, from a flow down to the wire.

``driver`` and ``async_driver`` carry a flow's steps out, ``connection`` and ``async_connection``
are what a client was opened with (a DSN, a pool, a connection of the caller's), ``wire`` is how one
call travels. ``settle`` and ``side_by_side`` do several things at once.
"""

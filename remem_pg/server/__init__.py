"""The embedded Postgres: its ``programs``, its ``postmaster``; and the ``clients`` of Postgres that
make backups.
"""

"""What an installation consists of (``scripts``), what stands in its way (``obstacles``), and the
superuser's part of a model in the database (``plpython``).
"""

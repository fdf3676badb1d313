"""Exports of other systems as items of ``remember``: which shapes are known, what becomes of what.

Each system is one table of fields (``mapping``) and one function from a record to an item. What has
no place goes into ``metadata``, so nothing is lost; the record's own id becomes the ref, so that
the same file may be imported again.
"""

from __future__ import annotations

from remem_pg.importers.shapes import Source, records, sources
from remem_pg.importers.survey import Survey, survey

__all__ = ["Source", "Survey", "records", "sources", "survey"]

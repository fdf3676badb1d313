"""remem-pg: long-term memory for software agents, inside the Postgres you already have.

Importing this package imports none of its dependencies: every name is loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from remem_pg.version import __version__

if TYPE_CHECKING:
    from remem_pg.async_client import AsyncRemem
    from remem_pg.client import Remem
    from remem_pg.context.catalog_models import Route, Topic
    from remem_pg.context.markdown import MarkdownProvider
    from remem_pg.context.plan import Plan, PlannerRequest
    from remem_pg.context.provider import FunctionProvider, Provider
    from remem_pg.context.ranking import Ranked
    from remem_pg.context.record import Record
    from remem_pg.context.result import ContextResult, Trace
    from remem_pg.context.scope import Scope
    from remem_pg.context.settings import ContextSettings
    from remem_pg.context.synthesis import SynthesisRequest
    from remem_pg.embedding.base import EmbeddingModel
    from remem_pg.errors import (
        CallAborted,
        ClaimLost,
        Conflict,
        DatabaseNewer,
        DimensionMismatch,
        EmbeddedUnavailable,
        EmbeddingUnavailable,
        InvalidArgument,
        NoAccess,
        NotFound,
        NotInstalled,
        PgvectorMissing,
        ReadOnly,
        RememError,
        ServerExhausted,
        ServerUnavailable,
        TenantNotSet,
        TextRefused,
        TransactionAborted,
        UnknownOption,
        UnknownSpace,
        VectorRefused,
    )
    from remem_pg.models import (
        BulkReport,
        ConflictCandidate,
        DropReport,
        ForgetReport,
        Hit,
        Memory,
        MemoryInput,
        MemoryRef,
        MemoryVersion,
        RecallResult,
        SpaceInfo,
        Version,
    )
    from remem_pg.operating.models import CheckRow, MaintainRow
    from remem_pg.operating.transfer import ExportReport, ImportReport
    from remem_pg.recall.hooks import Hooks, RecallRequest
    from remem_pg.rerank.cross_encoder import CrossEncoder
    from remem_pg.rerank.http import HttpReranker
    from remem_pg.rerank.rerankers import LateInteraction, Reranker
    from remem_pg.spaces.models import Coverage, ReembedResult, SpaceStatus
    from remem_pg.spaces.worker import Worker, WorkerReport
    from remem_pg.tenancy.models import Grant, ReindexReport, WorkspaceInfo

__all__ = [
    "AsyncRemem",
    "BulkReport",
    "CallAborted",
    "CheckRow",
    "ClaimLost",
    "Conflict",
    "ConflictCandidate",
    "ContextResult",
    "ContextSettings",
    "Coverage",
    "CrossEncoder",
    "DatabaseNewer",
    "DimensionMismatch",
    "DropReport",
    "EmbeddedUnavailable",
    "EmbeddingModel",
    "EmbeddingUnavailable",
    "ExportReport",
    "ForgetReport",
    "FunctionProvider",
    "Grant",
    "Hit",
    "Hooks",
    "HttpReranker",
    "ImportReport",
    "InvalidArgument",
    "LateInteraction",
    "MaintainRow",
    "MarkdownProvider",
    "Memory",
    "MemoryInput",
    "MemoryRef",
    "MemoryVersion",
    "NoAccess",
    "NotFound",
    "NotInstalled",
    "PgvectorMissing",
    "Plan",
    "PlannerRequest",
    "Provider",
    "Ranked",
    "ReadOnly",
    "RecallRequest",
    "RecallResult",
    "Record",
    "ReembedResult",
    "ReindexReport",
    "Remem",
    "RememError",
    "Reranker",
    "Route",
    "Scope",
    "ServerExhausted",
    "ServerUnavailable",
    "SpaceInfo",
    "SpaceStatus",
    "SynthesisRequest",
    "TenantNotSet",
    "TextRefused",
    "Topic",
    "Trace",
    "TransactionAborted",
    "UnknownOption",
    "UnknownSpace",
    "VectorRefused",
    "Version",
    "Worker",
    "WorkerReport",
    "WorkspaceInfo",
    "__version__",
]

_HOME = {
    "AsyncRemem": "remem_pg.async_client",
    "Remem": "remem_pg.client",
    "Route": "remem_pg.context.catalog_models",
    "Topic": "remem_pg.context.catalog_models",
    "ContextResult": "remem_pg.context.result",
    "ContextSettings": "remem_pg.context.settings",
    "FunctionProvider": "remem_pg.context.provider",
    "MarkdownProvider": "remem_pg.context.markdown",
    "Plan": "remem_pg.context.plan",
    "PlannerRequest": "remem_pg.context.plan",
    "Provider": "remem_pg.context.provider",
    "Ranked": "remem_pg.context.ranking",
    "Record": "remem_pg.context.record",
    "Trace": "remem_pg.context.result",
    "Scope": "remem_pg.context.scope",
    "SynthesisRequest": "remem_pg.context.synthesis",
    "EmbeddingModel": "remem_pg.embedding.base",
    "CrossEncoder": "remem_pg.rerank.cross_encoder",
    "HttpReranker": "remem_pg.rerank.http",
    "LateInteraction": "remem_pg.rerank.rerankers",
    "Reranker": "remem_pg.rerank.rerankers",
    "CheckRow": "remem_pg.operating.models",
    "MaintainRow": "remem_pg.operating.models",
    "Coverage": "remem_pg.spaces.models",
    "ReembedResult": "remem_pg.spaces.models",
    "SpaceStatus": "remem_pg.spaces.models",
    "ExportReport": "remem_pg.operating.transfer",
    "ImportReport": "remem_pg.operating.transfer",
    "Grant": "remem_pg.tenancy.models",
    "ReindexReport": "remem_pg.tenancy.models",
    "WorkspaceInfo": "remem_pg.tenancy.models",
    "Worker": "remem_pg.spaces.worker",
    "WorkerReport": "remem_pg.spaces.worker",
    "Hooks": "remem_pg.recall.hooks",
    "RecallRequest": "remem_pg.recall.hooks",
    **dict.fromkeys(
        (
            "BulkReport",
            "ConflictCandidate",
            "DropReport",
            "ForgetReport",
            "Hit",
            "Memory",
            "MemoryInput",
            "MemoryRef",
            "MemoryVersion",
            "RecallResult",
            "SpaceInfo",
            "Version",
        ),
        "remem_pg.models",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, "remem_pg.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

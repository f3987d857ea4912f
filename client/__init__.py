"""A complete engine-core client for the vLLM data-parallel protocol."""

from client.components import Components
from client.config import (
    Bootstrapped,
    ClientConfig,
    ExternalCoordinatorAddress,
    HandshakeOwner,
    InProcessCoordinator,
)
from client.coordinator_process import ExternalCoordinator
from client.engine_client import ClientSnapshot, EngineClient
from client.errors import ClientError
from client.output_stream import OutputStream
from client.rank_metadata import parse_rank_header, parse_rank_metadata

__all__ = [
    "Bootstrapped",
    "ClientConfig",
    "ClientError",
    "ClientSnapshot",
    "Components",
    "EngineClient",
    "ExternalCoordinator",
    "ExternalCoordinatorAddress",
    "HandshakeOwner",
    "InProcessCoordinator",
    "OutputStream",
    "parse_rank_header",
    "parse_rank_metadata",
]

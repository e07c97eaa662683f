"""A client of Hostler, in the standard library.

Client and what it returns block; AsyncClient is the same for asyncio.
"""

from . import types
from .aio import AsyncClaim, AsyncClient, AsyncCommand, AsyncFile, AsyncFiles, AsyncPort
from .client import Claim, Client
from .command import Chunk, Command
from .errors import HostlerError
from .files import File, Files
from .ports import Port
from .version import __version__

__all__ = [
    "AsyncClaim",
    "AsyncClient",
    "AsyncCommand",
    "AsyncFile",
    "AsyncFiles",
    "AsyncPort",
    "Chunk",
    "Claim",
    "Client",
    "Command",
    "File",
    "Files",
    "HostlerError",
    "Port",
    "__version__",
    "types",
]

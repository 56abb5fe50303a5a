"""Memory that the processes of one instance share: made and held by main, mapped by name in the others."""

from __future__ import annotations

import os
import tempfile
from typing import Self


class SharedMemory:
    """Sparse memory, held by main for as long as the instance lives. It ends with main however that ends."""

    def __init__(self, name: str, descriptor: int, path: str | None) -> None:
        """``path`` is the file to remove at the end, where the memory is one."""
        self.name = name
        """What other processes open and map."""
        self._descriptor = descriptor
        self._path = path

    @classmethod
    def allocate(cls, label: str, size: int, head: bytes) -> Self:
        """Memory of ``size`` bytes that begins with ``head`` and is zero from there on."""
        path = None
        if hasattr(os, "memfd_create"):
            # Not /dev/shm: containers bound it to 64 MB, and a file there would outlive a killed main.
            descriptor = os.memfd_create(label)
            name = f"/proc/{os.getpid()}/fd/{descriptor}"
        else:
            descriptor, path = tempfile.mkstemp(prefix=f"{label}-")
            name = path
        os.ftruncate(descriptor, size)
        os.pwrite(descriptor, head, 0)
        return cls(name, descriptor, path)

    def close(self) -> None:
        """Let go of the memory; processes that have mapped it keep their view. May be called twice."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        if self._path is not None:
            os.unlink(self._path)

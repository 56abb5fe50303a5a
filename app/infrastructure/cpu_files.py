"""Reading what the kernel tells of CPUs: files of /proc and of control groups, versions 1 and 2 (BUD-056).

Not here: what the texts mean (domain/cpu_text.py), what comes of two readings (domain/cpu_use.py). A file that is not
there, or may not be read, gives nothing; on a system without them nearly everything is not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from app.core.clock import mono
from app.domain import cpu_text
from app.domain.cpu_text import ProcessTime, Throttle
from app.domain.cpu_use import CpuReading

_UNIFIED: Final = "sys/fs/cgroup"
_OLD: Final = ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct")


class CpuFiles:
    """The files of one machine or container. ``root``: where they begin; another one in tests."""

    def __init__(self, main_pid: int, *, root: Path = Path("/"), cores: Callable[[], int | None] | None = None) -> None:
        """``main_pid``: main process of this instance. ``cores``: CPUs that a process may run on."""
        self._main_pid = main_pid
        self._root = root
        self._cores = cores or _cores
        unified, old = cpu_text.groups(self._text("proc/self/cgroup") or "")
        self._groups = list(self._folders((_UNIFIED,), unified))
        self._old_groups = list(self._folders(_OLD, old))

    def read(self) -> CpuReading:
        """All of it now; takes milliseconds on a machine with many processes, so not on a loop that serves."""
        quota, throttle, used_sec = self._of_groups()
        machine, cores = cpu_text.machine(self._text("proc/stat") or ""), self._cores()
        if quota is not None and quota >= (cores or 1):
            quota = None  # a limit above what there is limits nothing
        bounds = [float(bound) for bound in (cores, quota) if bound is not None]
        return CpuReading(
            at=mono(),
            usable=min(bounds, default=None),
            quota=quota,
            machine=machine,
            own=self._own(),
            group_sec=used_sec,
            throttle=throttle,
            pressure_sec=self._pressure(quota is not None),
        )

    def _of_groups(self) -> tuple[float | None, Throttle | None, float | None]:
        """Quota, throttling and use of the group with the tightest quota; of the own one where none has any."""
        found = [
            (cpu_text.quota(self._text(folder / "cpu.max") or ""), cpu_text.throttle(stat), cpu_text.used_sec(stat))
            for folder in self._groups
            if (stat := self._text(folder / "cpu.stat")) is not None
        ]
        found += [
            (
                cpu_text.quota_of(
                    self._text(folder / "cpu.cfs_quota_us") or "", self._text(folder / "cpu.cfs_period_us") or ""
                ),
                cpu_text.throttle(stat),
                cpu_text.used_sec_of(self._text(self._accounts(folder)) or ""),
            )
            for folder in self._old_groups
            if (stat := self._text(folder / "cpu.stat")) is not None
        ]
        limited = [one for one in found if one[0] is not None]
        if limited:
            return min(limited, key=lambda one: one[0] or 0.0)
        return found[0] if found else (None, None, None)

    def _accounts(self, folder: Path) -> Path:
        own = folder / "cpuacct.usage"
        if (self._root / own).exists():
            return own
        inside = folder.parts[len(Path(_OLD[0]).parts) :]
        return Path("sys/fs/cgroup/cpuacct", *inside, "cpuacct.usage")

    def _folders(self, bases: tuple[str, ...], group: str | None) -> Iterator[Path]:
        """The group's folder and those above it, as far as they are there: in a container the upper ones are not."""
        if group is None:
            return
        inside = PurePosixPath(group.lstrip("/"))
        for base in bases:
            if not (self._root / base).is_dir():
                continue
            for part in (inside, *inside.parents):
                folder = Path(base) / part
                if (self._root / folder).is_dir():
                    yield folder
            return

    def _pressure(self, is_container: bool) -> float | None:
        paths = [folder / "cpu.pressure" for folder in self._groups] if is_container else []
        for path in (*paths, Path("proc/pressure/cpu")):
            if (text := self._text(path)) is not None:
                return cpu_text.pressure_sec(text)
        return None

    def _own(self) -> Mapping[int, ProcessTime] | None:
        """Main and everything that it started, and what those started."""
        everybody: dict[int, ProcessTime] = {}
        for folder in (self._root / "proc").glob("[0-9]*"):
            text = self._text(folder / "stat")
            if text is not None and (one := cpu_text.process_time(text)) is not None:
                everybody[int(folder.name)] = one
        if self._main_pid not in everybody:
            return None
        children: dict[int, list[int]] = {}
        for pid, one in everybody.items():
            children.setdefault(one.parent, []).append(pid)
        found, ahead = {}, [self._main_pid]
        while ahead:
            pid = ahead.pop()
            found[pid] = everybody[pid]
            ahead += children.get(pid, ())
        return found

    def _text(self, path: Path | str) -> str | None:
        try:
            return (self._root / path).read_text("utf-8", "replace")
        except OSError:
            return None


def _cores() -> int | None:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def ticks_a_second() -> int:
    """Clock ticks of the kernel's times."""
    return os.sysconf("SC_CLK_TCK")

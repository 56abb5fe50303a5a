"""The reference of the admin API: its examples are run, its tables compared with the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from app.domain.room_fields import FIELDS
from tests.harness import Server

TEXT = (Path(__file__).resolve().parents[2] / "docs/reference/http.md").read_text("utf-8")
EXAMPLE = re.compile(r"```sh\n(.*?)\n```\n```json\n(.*?)\n```", re.DOTALL)


def holds(answer: Any, wanted: Any) -> bool:
    """Tell whether ``answer`` has everything that the reference shows."""
    if isinstance(wanted, dict):
        return isinstance(answer, dict) and all(name in answer and holds(answer[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(answer, list) and len(answer) == len(wanted) and all(map(holds, answer, wanted))
    return type(answer) is type(wanted) and answer == wanted


def test_every_example_gives_what_the_reference_shows(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(TEXT)
    assert len(examples) == TEXT.count("```sh") > 15
    with Server(workers=1) as server:
        env = {
            "PATH": os.environ["PATH"],
            "QM": server.url,
            "KEY": server.admin_key,
            "JAR": str(tmp_path / "jar"),
        }
        for command, wanted in examples:
            done = subprocess.run(
                ["sh", "-c", command], env=env, capture_output=True, text=True, timeout=30, check=True
            )
            answer = json.loads(done.stdout)
            assert holds(answer, json.loads(wanted)), f"{command}\n{answer}"


def test_the_table_of_fields_is_that_of_the_code() -> None:
    for row in FIELDS:
        if row.built:
            default = "–" if row.name in ("id", "name", "targetUrl") else f"`{json.dumps(row.default)}`"
            assert f"| `{row.name}` | {row.kind} | {default} | `{row.error_code}` | {row.help} |" in TEXT
    later = re.search(r"These fields belong to features.*?:\s(`proxyOrigins`.*?)\.\n", TEXT, re.DOTALL)
    assert later is not None
    assert re.findall(r"`(\w+)`", later[1]) == [row.name for row in FIELDS if not row.built]

"""nginx with a configuration from deploy/: the same file, with paths and ports of a test."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.processes import Processes, listens

ROOT = Path(__file__).parents[1]
#: Where Debian has it, which is not on everybody's PATH.
PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
needs_nginx = pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed (apt-get install nginx-light)")


def start_nginx(processes: Processes, name: str, replaced: Mapping[str, object], port: int, folder: Path) -> None:
    """Run deploy/nginx/NAME with some of its words replaced; every one of them must be there."""
    text = (ROOT / "deploy" / "nginx" / name).read_text()
    for word, value in replaced.items():
        assert word in text, word
        text = text.replace(word, str(value))
    assert "/etc/twofold" not in text
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"    {part}_temp_path {folder}/{part};\n" for part in parts)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{ }}\n"
        f"http {{\n    access_log {folder}/access.log;\n{temporary}{text}\n}}\n"
    )
    assert PROGRAM is not None
    processes.start("nginx", [PROGRAM, "-c", folder / "nginx.conf", "-p", folder, "-e", folder / "error.log"])
    processes.wait_for(lambda: listens(port), 20, "nginx")

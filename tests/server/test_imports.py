"""The server cannot touch ratings: its package loads neither data nor entity code."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_server_loads_no_data_and_no_entity_code() -> None:
    code = (
        "import sys, twofold.server, twofold.server.coordinate;"
        "print([name for name in sys.modules if name.startswith(('twofold.data', 'twofold.entity'))],"
        " 'twofold.server.factorize' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"

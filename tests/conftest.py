"""Fixtures every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchmarks._kill_points import fast_folder

settings.register_profile("twofold", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("twofold")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the published data sets, named by TWOFOLD_DATA; tests that need it skip without it."""
    named = os.environ.get("TWOFOLD_DATA")
    if not named:
        pytest.skip("TWOFOLD_DATA is not set: the published data sets are not part of the repository")
    folder = Path(named)
    if not folder.is_dir():
        pytest.skip("TWOFOLD_DATA names no folder")
    return folder


@pytest.fixture
def fast_disk() -> Iterator[Path]:
    """A folder in memory where there is one, for tests that kill processes between two steps on the disk."""
    with fast_folder() as folder:
        yield folder


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Name long bytes by their length: keys and signatures are random, and workers must agree on names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) and len(val) > 16 else None


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Do not wait for the disk thousands of times; tests of power cuts and kills model or spawn their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield

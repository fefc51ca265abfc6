"""The offline bundle: what goes into it, its SBOM, and an installation on a machine without a network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from cyclonedx.validation.json import JsonStrictValidator

from deploy.bundle import INSTALL, Bundle, Wheel, archive, build, needed, read_wheel
from deploy.sbom import SCHEMA, sbom

#: A Tuesday in 2026.
MOMENT = 1_791_000_000


def wheel(folder: Path, name: str, *lines: str, version: str = "1.0") -> Wheel:
    """Write a wheel that is metadata and nothing else."""
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    head = (f"Name: {name}", f"Version: {version}", "Metadata-Version: 2.4", *lines)
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr(f"{name.replace('-', '_')}-{version}.dist-info/METADATA", "\n".join(head) + "\n\n")
        opened.writestr(f"{name}/vendored-0.1.dist-info/METADATA", "Name: vendored\n\n")
    return read_wheel(path)


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Wheel]:
    made = [
        wheel(
            tmp_path,
            "twofold",
            "License-Expression: Apache-2.0",
            "Requires-Dist: fast-arrays>=1",
            "Requires-Dist: words[colour]",
            'Requires-Dist: old-windows; sys_platform == "win32"',
            'Requires-Dist: service; extra == "network"',
        ),
        wheel(tmp_path, "fast-arrays", "Classifier: License :: OSI Approved :: BSD License"),
        wheel(tmp_path, "words", 'Requires-Dist: Paint.Box; extra == "colour"', "License: MIT"),
        wheel(tmp_path, "paint-box", "Requires-Dist: words"),
        wheel(tmp_path, "service"),
        wheel(tmp_path, "builder", "Requires-Dist: twofold"),
    ]
    return {one.name: one for one in made}


def test_a_package_and_all_that_it_needs_here(wheels: dict[str, Wheel]) -> None:
    found = needed("twofold", wheels)
    assert found == {
        "fast-arrays": frozenset(),
        "paint-box": frozenset({"words"}),
        "twofold": frozenset({"fast-arrays", "words"}),
        "words": frozenset({"paint-box"}),
    }
    assert "service" in needed("twofold", wheels, ["network"])


def test_what_is_needed_must_be_there(wheels: dict[str, Wheel]) -> None:
    del wheels["fast-arrays"]
    with pytest.raises(KeyError, match="fast-arrays"):
        needed("twofold", wheels)


def test_the_sbom_is_valid_and_the_same_each_time(wheels: dict[str, Wheel]) -> None:
    graph = needed("twofold", wheels)
    taken = [wheels[name] for name in graph]
    text = sbom(taken, graph, moment=MOMENT)
    assert JsonStrictValidator(SCHEMA).validate_str(text) is None
    assert text == sbom(taken[::-1], graph, moment=MOMENT)
    found = json.loads(text)
    parts = {one["name"]: one for one in found["components"]}
    assert set(parts) == {"fast-arrays", "paint-box", "words"}
    assert found["metadata"]["component"]["name"] == "twofold"
    assert found["metadata"]["component"]["licenses"][0]["expression"] == "Apache-2.0"
    assert parts["words"]["licenses"][0]["license"]["name"] == "MIT"
    assert parts["fast-arrays"]["licenses"][0]["license"]["name"] == "BSD License"
    assert "licenses" not in parts["paint-box"]
    assert parts["words"]["hashes"] == [{"alg": "SHA-256", "content": wheels["words"].sha256}]
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert needs["twofold==1.0"] == ["fast-arrays==1.0", "words==1.0"]


def test_equal_folders_give_equal_archives(tmp_path: Path) -> None:
    made = []
    for number in range(2):
        folder = tmp_path / str(number) / "bundle"
        (folder / "wheels").mkdir(parents=True)
        for name in ("b", "a")[:: 1 - 2 * number]:
            (folder / "wheels" / name).write_text(name)
            os.utime(folder / "wheels" / name, (number, number))
        (folder / "install.sh").write_text("exit 0\n")
        (folder / "install.sh").chmod(0o700 + number)
        made.append(archive(folder, MOMENT))
    assert made[0] == made[1]
    with tarfile.open(fileobj=BytesIO(made[0])) as tar:
        names = {entry.name: entry for entry in tar.getmembers()}
    assert set(names) == {"bundle", "bundle/install.sh", "bundle/wheels", "bundle/wheels/a", "bundle/wheels/b"}
    assert {entry.mtime for entry in names.values()} == {MOMENT}
    assert names["bundle/install.sh"].mode == 0o755
    assert names["bundle/wheels/a"].mode == 0o644


def test_a_script_refuses_what_it_cannot_install(tmp_path: Path) -> None:
    """Another Python, a folder that exists, a changed file: each says so, and nothing is made."""
    other = tmp_path / "twofold-1.0-cp27-linux_x86_64"
    other.mkdir()
    shutil.copy(INSTALL, other / "install.sh")

    def install(*words: object) -> subprocess.CompletedProcess[str]:
        line = ["sh", str(other / "install.sh"), *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    assert install().returncode == 2
    done = install(tmp_path / "new")
    assert (done.returncode, "cp27" in done.stderr) == (2, True)
    assert "exists already" in install(tmp_path).stderr
    tag = "import sys, sysconfig; print(f'cp{sys.version_info[0]}{sys.version_info[1]}-{sysconfig.get_platform()}')"
    named = subprocess.run(["python3", "-c", tag], capture_output=True, text=True, check=True).stdout.strip()
    other = other.rename(tmp_path / f"twofold-1.0-{named.replace('linux-', 'linux_')}")
    (other / "SHA256SUMS").write_text(f"{'0' * 64}  install.sh\n")
    done = install(tmp_path / "new")
    assert (done.returncode, "nothing was installed" in done.stderr) == (1, True)
    assert not (tmp_path / "new").exists()


def without_network() -> list[str] | None:
    """Give the words that start a program in a namespace without a network, or None where that is not allowed."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        tried = shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False)
        if tried and tried.returncode == 0:
            return words
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    try:
        return build(tmp_path_factory.mktemp("bundle"))
    except subprocess.CalledProcessError:
        pytest.skip("the wheels of the lock cannot be downloaded here")


@pytest.mark.slow
def test_the_bundle_is_complete_and_the_same_again(built: Bundle, tmp_path: Path) -> None:
    sums = dict(line.split("  ")[::-1] for line in (built.folder / "SHA256SUMS").read_text().splitlines())
    files = {str(path.relative_to(built.folder)) for path in built.folder.rglob("*") if path.is_file()}
    assert set(sums) == files - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((built.folder / name).read_bytes()).hexdigest() == digest
    names = {one.name for one in built.wheels}
    assert {"twofold", "numpy", "cryptography", "uvicorn", "httpx"} <= names
    assert not {"hatchling", "pytest", "editables"} & names
    document = (built.folder / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SCHEMA).validate_str(document) is None
    found = json.loads(document)
    parts = [*found["components"], found["metadata"]["component"]]
    hashes = {one["name"]: one["hashes"][0]["content"] for one in parts}
    assert hashes == {one.name: one.sha256 for one in built.wheels}
    lock = (Path(__file__).parents[2] / "requirements" / "network.txt").read_text()
    assert all(one.sha256 in lock for one in built.wheels if one.name != "twofold")
    again = build(tmp_path)
    assert again.sha256 == built.sha256


@pytest.mark.slow
def test_it_installs_and_runs_without_a_network(built: Bundle, tmp_path: Path) -> None:
    apart = without_network()
    if apart is None:
        pytest.skip("network namespaces are not allowed here")
    with tarfile.open(built.archive) as tar:
        tar.extractall(tmp_path, filter="data")
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def run(*words: object) -> str:
        line = [*apart, *map(str, words)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=bare, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    said = run("sh", tmp_path / built.folder.name / "install.sh", tmp_path / "installed")
    assert "No broken requirements found" in said
    twofold = tmp_path / "installed" / "bin" / "twofold"
    record = json.loads(run(twofold, "demo", "--patients", 400, "--hospitals", 4, "--json"))
    assert record["messages_protected"] is True
    assert record["hospitals"] == 4
    assert (tmp_path / "twofold-demo.html").exists()
    lost = "import socket; socket.create_connection(('192.0.2.1', 443), 2)"
    with pytest.raises(AssertionError, match="unreachable"):
        run(tmp_path / "installed" / "bin" / "python", "-c", lost)

"""The offline bundle: a folder and an archive with which twofold is installed on a machine without a network.

::

    twofold-0.1.0-cp311-linux_x86_64/
      install.sh        checks the hashes, makes an environment, installs from wheels/ only
      requirements.txt  exact versions, each with the hash of the one file that is here
      SHA256SUMS        of every file; `sha256sum -c SHA256SUMS`
      sbom.cdx.json     what is in here: names, versions, hashes, licences, who needs whom (CycloneDX)
      wheels/           twofold and everything it needs at run time

Wheels come from the lock of the repository with their hashes checked; what only builds need is left out. The same
commit and lock give the same bytes: times are those of the commit, and names are sorted.

`python -m deploy.bundle [--output DIR]`, or `make bundle`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from deploy.sbom import sbom

__all__ = ["Bundle", "Wheel", "archive", "build", "main", "needed", "read_wheel"]

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements" / "network.txt"
#: Extras of twofold whose packages are in the bundle as well.
EXTRAS: Final = ("network", "plot")
#: The wheels run with glibc 2.28 (2018) or newer: Red Hat 8, Debian 10, Ubuntu 20.04.
GLIBC: Final = 28
INSTALL: Final = Path(__file__).with_name("install.sh")


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One wheel: its file, what it is, and what its metadata say.

    Parameters
    ----------
    file : str
        Name of the file.
    name, version : str
        Normal form of the name, and the version.
    sha256 : str
        Hash of the file.
    metadata : Message
        Its METADATA: requirements, licence, summary.
    """

    file: str
    name: str
    version: str
    sha256: str
    metadata: Message

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """Its requirements, with their markers."""
        return tuple(Requirement(line) for line in self.metadata.get_all("Requires-Dist", []))


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle that was built: its folder, its archive, and the archive's hash."""

    folder: Path
    archive: Path
    sha256: str
    wheels: tuple[Wheel, ...]


def read_wheel(path: Path) -> Wheel:
    """Read what a wheel says of itself.

    Parameters
    ----------
    path : Path
        The file; its name must be that of a wheel.
    """
    name, version, _, _ = parse_wheel_filename(path.name)
    with zipfile.ZipFile(path) as opened:
        (inside,) = (one for one in opened.namelist() if one.count("/") == 1 and one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(opened.read(inside).decode("utf-8"))
    return Wheel(file=path.name, name=name, version=str(version), sha256=_sha256(path), metadata=metadata)


def needed(top: str, wheels: Mapping[str, Wheel], extras: Iterable[str] = ()) -> dict[str, frozenset[str]]:
    """Give what a package needs on this platform, directly and through others, each with what it needs itself.

    Parameters
    ----------
    top : str
        The package to start from.
    wheels : mapping of str to Wheel
        What there is, by name; all that is needed must be there.
    extras : iterable of str
        Extras of `top`.
    """
    found: dict[str, frozenset[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(top, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        fit = [one for one in wheels[name].requires if one.marker is None or one.marker.evaluate({"extra": extra})]
        found[name] = found.get(name, frozenset()) | {canonicalize_name(one.name) for one in fit}
        waiting += [(canonicalize_name(one.name), more) for one in fit for more in ("", *one.extras)]
    return dict(sorted(found.items()))


def build(output: Path, *, lock: Path = LOCK, root: Path = ROOT) -> Bundle:
    """Build the bundle of a checkout into a folder.

    Parameters
    ----------
    output : Path
        Folder for the bundle and its archive; an earlier bundle of the same name is replaced.
    lock : Path
        Requirements with hashes.
    root : Path
        The checkout.
    """
    moment = _moment(root)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=output) as scratch:
        folder = Path(scratch, "all")
        folder.mkdir()
        _collect(folder, lock, root, moment)
        every = {wheel.name: wheel for wheel in map(read_wheel, sorted(folder.glob("*.whl")))}
        graph = needed("twofold", every, EXTRAS)
        taken = tuple(every[name] for name in graph)
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}-{sysconfig.get_platform().replace('-', '_')}"
        made = Path(scratch, f"twofold-{every['twofold'].version}-{tag}")
        (made / "wheels").mkdir(parents=True)
        for wheel in taken:
            shutil.copyfile(folder / wheel.file, made / "wheels" / wheel.file)
        _describe(made, taken, sbom(taken, graph, moment=moment))
        packed = Path(scratch, f"{made.name}.tar.gz")
        packed.write_bytes(archive(made, moment))
        shutil.rmtree(output / made.name, ignore_errors=True)
        made, packed = made.rename(output / made.name), packed.replace(output / packed.name)
    return Bundle(folder=made, archive=packed, sha256=_sha256(packed), wheels=taken)


def _describe(made: Path, wheels: Sequence[Wheel], document: str) -> None:
    """Write everything beside the wheels; the list of hashes last, over all the rest."""
    lines = (f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
    (made / "requirements.txt").write_text("".join(lines), encoding="utf-8")
    (made / "sbom.cdx.json").write_text(document, encoding="utf-8")
    shutil.copyfile(INSTALL, made / "install.sh")
    (made / "install.sh").chmod(0o755)
    files = sorted(path for path in made.rglob("*") if path.is_file())
    sums = (f"{_sha256(path)}  {path.relative_to(made)}\n" for path in files)
    (made / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def archive(folder: Path, moment: int) -> bytes:
    """Pack a folder: names sorted, one time, one owner, so that equal folders give equal bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=moment, filename="", compresslevel=1) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in [folder, *sorted(folder.rglob("*"))]:
            entry = tar.gettarinfo(path, arcname=str(path.relative_to(folder.parent)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = moment, 0, 0, "", ""
            entry.mode = 0o755 if path.is_dir() or path.suffix == ".sh" else 0o644
            if path.is_file():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return packed.getvalue()


def _collect(folder: Path, lock: Path, root: Path, moment: int) -> None:
    """Bring the wheels of the lock, hashes checked, and build the one of the checkout."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    exact = ["--no-deps", "--require-hashes", "--only-binary", ":all:", *_platforms()]
    subprocess.run([*pip, "download", *exact, "--dest", str(folder), "-r", str(lock)], check=True)
    plain = ["--no-deps", "--no-build-isolation", "--no-index"]
    times = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    subprocess.run([*pip, "wheel", *plain, "--wheel-dir", str(folder), str(root)], check=True, env=times)


def _platforms() -> list[str]:
    """Ask for wheels that run on older systems, too; pip alone takes those made for the system of the builder."""
    machine = sysconfig.get_platform().removeprefix("linux-")
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    names += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    chosen = [word for name in names for word in ("--platform", name)]
    return [*chosen, "--implementation", "cp", "--python-version", f"{sys.version_info.major}.{sys.version_info.minor}"]


def _moment(root: Path) -> int:
    """Give the time of the commit, or SOURCE_DATE_EPOCH; in an archive without either, the first day of zip files."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    asked = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return int(told.stdout) if told.returncode == 0 and told.stdout.strip() else 315_532_800


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the bundle and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m deploy.bundle", description=main.__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder for the bundle (default: dist)")
    made = build(parser.parse_args(arguments).output)
    record = {"archive": str(made.archive), "sha256": made.sha256, "wheels": len(made.wheels)}
    print(json.dumps({**record, "bytes": made.archive.stat().st_size}, indent=2))


if __name__ == "__main__":
    main()

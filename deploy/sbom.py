"""The SBOM of the offline bundle, in CycloneDX JSON: what is in it, with hashes, licences and who needs whom.

Everything comes from the wheels themselves. The serial number is made from their hashes and the time is that of the
commit, so that the same bundle has the same SBOM.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.message import Message
from typing import TYPE_CHECKING, Final

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

if TYPE_CHECKING:
    from deploy.bundle import Wheel

__all__ = ["SCHEMA", "licences", "sbom"]

SCHEMA: Final = SchemaVersion.V1_6
#: A name of our own for serial numbers; any fixed one would do.
_SPACE: Final = uuid.UUID("5b0d3c76-1f51-4f63-9d3f-4d7b9f1f0c20")
#: Longer "licences" in the metadata are whole texts.
_LONGEST: Final = 80
_UNTOLD: Final = ("OSI Approved", "")


def sbom(wheels: Sequence[Wheel], graph: Mapping[str, frozenset[str]], *, moment: int) -> str:
    """Give the SBOM of some wheels as JSON.

    Parameters
    ----------
    wheels : sequence of Wheel
        What is in the bundle, twofold among them.
    graph : mapping of str to frozenset of str
        Which needs which, by name.
    moment : int
        Seconds since 1970 that stand as the time of the document.
    """
    parts = {wheel.name: _component(wheel) for wheel in wheels}
    bom = Bom(components=(part for name, part in parts.items() if name != "twofold"))
    bom.metadata.component = parts["twofold"]
    bom.metadata.timestamp = datetime.fromtimestamp(moment, UTC)
    bom.serial_number = uuid.uuid5(_SPACE, "\n".join(sorted(wheel.sha256 for wheel in wheels)))
    for name, part in parts.items():
        bom.register_dependency(part, [parts[other] for other in sorted(graph[name])])
    written = make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string()
    return json.dumps(json.loads(written), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _component(wheel: Wheel) -> Component:
    told = licences(wheel.metadata)
    return Component(
        type=ComponentType.APPLICATION if wheel.name == "twofold" else ComponentType.LIBRARY,
        name=wheel.name,
        version=wheel.version,
        bom_ref=f"{wheel.name}=={wheel.version}",
        description=wheel.metadata.get("Summary"),
        purl=PackageURL("pypi", name=wheel.name, version=wheel.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel.sha256)],
        licenses=[LicenseExpression(told)] if isinstance(told, str) else [DisjunctiveLicense(name=one) for one in told],
    )


def licences(metadata: Message) -> str | tuple[str, ...]:
    """Give the licence expression of a package, or else the names that its metadata give, or nothing.

    Examples
    --------
    >>> new, old, text = Message(), Message(), Message()
    >>> new["License-Expression"] = "Apache-2.0"
    >>> old["Classifier"] = "License :: OSI Approved :: MIT License"
    >>> text["License"] = "Permission is hereby granted, free of charge, to any person who obtains a copy of this"
    >>> licences(new), licences(old), licences(text)
    ('Apache-2.0', ('MIT License',), ())
    """
    if expression := metadata.get("License-Expression"):
        return str(expression)
    named = tuple(sorted(set(_classified(metadata))))
    field = str(metadata.get("License", "")).strip()
    if named or not field or len(field) > _LONGEST or "\n" in field:
        return named
    return (field,)


def _classified(metadata: Message) -> Iterator[str]:
    for line in metadata.get_all("Classifier", []):
        kind, *_, name = line.split(" :: ")
        if kind == "License" and name not in _UNTOLD:
            yield name

"""Messages whose content is JSON in an array of bytes: with two hundred entities it is longer than a header may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twofold.errors import BadMessage
from twofold.federation.messages import AGREED, ROLL, SENT, check_entity, check_header, check_signed, common_record
from twofold.federation.plan import Plan
from twofold.storage.container import (
    LARGEST_HEADER,
    Layout,
    as_bytes,
    canonical_json,
    open_container,
    pack_sealed,
    parse_json,
    unpack,
)

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = ["body_limit", "decode_body", "encode_body"]

# A sealed pair of shares, a share or a signature, with the name it is for, in JSON.
_PER_PAIR: Final = 512


def body_limit(plan: Plan, *, everybody: bool = False) -> int:
    """Most bytes of such a message: of one entity, or of all entities in one.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> body_limit(plan.with_(n_entities=205)) < body_limit(plan.with_(n_entities=205), everybody=True)
    True
    """
    entities = plan.expected_entities
    return 8 + LARGEST_HEADER + _PER_PAIR * (entities + 8) * (entities if everybody else 1)


def encode_body(
    schema: str, plan: Plan, body: Mapping[str, Any], *, entity: str | None = None, signer: SigningKey | None = None
) -> bytes:
    """Write a message with this body, signed if the plan has a roster."""
    record = common_record(schema, plan) | ({} if entity is None else {"entity": entity})
    text = canonical_json(body).encode()
    return pack_sealed(record, {"body": np.frombuffer(text, dtype=np.uint8)}, signer=signer)


def decode_body(data: bytes, plan: Plan, schema: str) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Read a message of this kind, if it is complete, of this plan and signed by its maker: its record and its body."""
    data = as_bytes(data, body_limit(plan, everybody=schema in (ROLL, AGREED)))
    container = open_container(data)
    check_header(container.record, plan, schema=schema)
    shape = container.layouts["body"].shape if "body" in container.layouts else ()
    layout = Layout(dtype="U8", shape=(shape[0] if len(shape) == 1 else 0,))
    arrays = unpack(data, container, {"body": layout})
    sender = check_entity(container.record, plan) if schema in SENT else None
    check_signed(data, container.record, plan, entity=sender)
    try:
        return container.record, parse_json(arrays["body"].tobytes().decode())
    except UnicodeDecodeError:
        raise BadMessage("the body of the message is not text.", parameter="body") from None

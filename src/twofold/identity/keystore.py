"""Secret keys on disk, with what their owner agreed to, confirmed and sent; each is written once.

The keys of a secure sum are bound to one plan and one version of the data. The signing key may serve many plans.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from twofold.checks import check_entity_name
from twofold.errors import PlanMismatch, PrivacyError, TransportError, UnreadableSource
from twofold.identity.keys import LARGEST_PART, Identity, Revocation, Role, Secrets
from twofold.secure_sum.keys import Keys
from twofold.storage.files import Busy, locked, put_once, read_limited
from twofold.storage.signing import Purpose, SigningKey

__all__ = ["KeyStore", "agreement_text", "new_keys"]

_LARGEST = 4 * 1024 * 1024
#: What is written beside the keys, each once and for all.
_BESIDE = ("plan", "roll", "message", "answer", "freeze")
#: Seconds to wait for another process of the same entity, which holds the lock for one small file.
_PATIENCE = 10.0


def new_keys(
    path: str | PathLike[str],
    name: str,
    role: Role = Role.ENTITY,
    *,
    renew: str | PathLike[str] | None = None,
    replace: str | PathLike[str] | None = None,
) -> Identity:
    """Make someone's secret keys; return their public part, to hand out.

    Parameters
    ----------
    path : path
        File for the secret keys, readable by this user alone. One that is there is kept: its public part is given.
    name : str
        Public name.
    role : Role
        What the owner does.
    renew : path, optional
        Earlier keys of the same owner: the signing key stays, and with it the fingerprint.
    replace : path, optional
        Earlier keys whose signing key is given up: it vouches for the new one.

    Raises
    ------
    PlanMismatch
        The file holds the keys of another name or role.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     anna = new_keys(f"{folder}/1.keys", "st-anna")
    ...     again = new_keys(f"{folder}/1.keys", "st-anna")
    ...     later = new_keys(f"{folder}/2.keys", "st-anna", renew=f"{folder}/1.keys")
    >>> anna == again, later.sign == anna.sign, later.sum == anna.sum
    (True, True, False)
    """
    file = Path(path)
    check_entity_name(name)
    if not os.path.lexists(file):
        _refuse_left(file)
        put_once(file, _made(name, role, renew, replace).to_bytes(), mode=0o600)
    made = _read(file).identity
    if (made.name, made.role) != (name, role):
        raise PlanMismatch(
            "the file holds the keys of somebody else.",
            found=f"{made.role} {made.name}",
            expected=f"{role} {name}",
            fix="another file for the keys",
            parameter="keys",
        )
    return made


def _made(name: str, role: Role, renew: str | PathLike[str] | None, replace: str | PathLike[str] | None) -> Secrets:
    if renew is None and replace is None:
        return Secrets.new(name, role)
    earlier = _read(Path(replace if renew is None else renew))  # type: ignore[arg-type]
    if (earlier.name, earlier.role) != (name, role):
        raise PlanMismatch(
            "the earlier keys are somebody else's.",
            found=f"{earlier.role} {earlier.name}",
            expected=f"{role} {name}",
            parameter="keys",
        )
    return earlier.replaced() if renew is None else earlier.renewed()


class KeyStore:
    """Someone's secret keys: in a file, or in memory for a simulation.

    Parameters
    ----------
    keys : path or Secrets
        What `new_keys` wrote.

    Privacy
    -------
    The keys of a secure sum serve one plan and one version of the data, recorded beside them once, before anything is
    shared. The list that the message is masked for, the masked message and the answer that removes masks are recorded
    before they are sent. A second message under the same masks would reveal its difference from the first, and an
    answer to a second list of survivors could reveal single messages. Neither is ever made, and the proof depends on
    that. Restoring an old copy of these files breaks it, as with a ledger.
    """

    def __init__(self, keys: str | PathLike[str] | Secrets) -> None:
        self._path = None if isinstance(keys, Secrets) else Path(keys)
        self._secrets = keys if isinstance(keys, Secrets) else _read(Path(keys))
        self._held: dict[str, bytes] = {}

    @property
    def identity(self) -> Identity:
        """The public part."""
        return self._secrets.identity

    @property
    def signer(self) -> SigningKey:
        """The signing key."""
        return self._secrets.sign

    @property
    def keys(self) -> Keys:
        """The keys of the secure sum."""
        return self._secrets.sum

    def revocation(self) -> Revocation:
        """Give a signed statement that the signing key must not be used any more."""
        return self._secrets.revocation()

    @property
    def in_memory(self) -> bool:
        """Whether the keys are forgotten with the process."""
        return self._path is None

    def agree(self, plan_hash: str) -> bytes:
        """Agree to a plan: sign its hash, and remember that; the same signature every time."""
        signature = self.signer.sign(Purpose.AGREEMENT, agreement_text(plan_hash, self.identity.name))
        self._once(f"agreed-{plan_hash[:16]}", plan_hash.encode())
        return signature

    def agreement(self, plan_hash: str) -> bytes | None:
        """Give the signature of a plan that the owner has agreed to, or None."""
        return self.agree(plan_hash) if self._stored(f"agreed-{plan_hash[:16]}") == plan_hash.encode() else None

    def confirm(self, plan_hash: str) -> None:
        """Record that the owner has compared the plan's fingerprint with people they know."""
        self._once(f"confirmed-{plan_hash[:16]}", plan_hash.encode())

    def confirmed(self, plan_hash: str) -> bool:
        """Whether the owner has compared the plan's fingerprint."""
        return self._stored(f"confirmed-{plan_hash[:16]}") == plan_hash.encode()

    @property
    def plan_hash(self) -> str | None:
        """Hash of the plan that the keys are tied to, if any."""
        data = self._stored("plan")
        return None if data is None else data.decode(errors="replace").partition(" ")[0]

    @property
    def masked(self) -> bool:
        """Whether a masked message was ever handed out."""
        return self._stored("message") is not None

    def check_free(self, plan_hash: str) -> None:
        """Refuse keys of a secure sum that serve another plan; writes nothing."""
        if self.plan_hash not in (None, plan_hash):
            raise _other_plan(plan_hash)

    def bind(self, plan_hash: str, version: str = "1") -> None:
        """Tie the keys to a plan and a version of the data; refuse any other plan or version."""
        tied = f"{plan_hash} {version}".encode(errors="backslashreplace")
        if self._once("plan", tied) == tied:
            return
        if self.plan_hash == plan_hash:
            raise PrivacyError(
                "these keys serve another version of the data; nothing was drawn.",
                expected="the version they were first used with: two messages under one mask reveal their difference",
                fix="use the same version; for another, start a new plan with new keys",
                parameter="version",
            )
        raise _other_plan(plan_hash)

    def keep_participants(self, digest: str) -> None:
        """Record which list this entity masks for, before it does; any other list is refused from then on."""
        if self._once("roll", digest.encode()) != digest.encode():
            raise PlanMismatch(
                "the server published another list of key sharers earlier.",
                expected="the list this entity masked its message for",
                fix="ask the server why there are two; another list needs another plan and new keys",
                parameter="roll",
            )

    def keep_message(self, receipt: str) -> None:
        """Record which message leaves under the masks, before it does; any other is refused from then on."""
        if self._once("message", receipt.encode()) != receipt.encode():
            raise PrivacyError(
                "these keys have masked another message before; this one is not handed out.",
                expected="one message under these masks: two would reveal their difference",
                fix="the ledger that holds the first message, or a new plan with new keys",
                parameter="message",
            )

    def answered(self) -> bytes | None:
        """Give the earlier answer, if there was one."""
        return self._stored("answer")

    def keep_answer(self, data: bytes) -> bytes:
        """Store the answer before it is sent; return the stored one, which may come from another process."""
        if self._once("answer", data) != data:
            raise PrivacyError(
                "another answer was stored first; nothing is sent.", fix="run the command again", parameter="answer"
            )
        return data

    @property
    def frozen(self) -> str | None:
        """Receipt of the noisy sum that an operator froze under these keys, in whatever folder."""
        data = self._stored("freeze")
        return None if data is None else data.decode(errors="replace")

    def keep_freeze(self, receipt: str) -> None:
        """Record which noisy sum an operator will show, before anything of it leaves; any other is refused."""
        if self._once("freeze", receipt.encode()) != receipt.encode():
            raise PrivacyError(
                "these keys have frozen another sum before; nothing is sent.",
                expected="one sum under these keys: with a second noise, or over a second list, less stays hidden",
                fix="the folder in which the first sum was frozen, or a new plan with new keys",
                parameter="freeze",
            )

    def _beside(self, what: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{what}")

    def _stored(self, what: str) -> bytes | None:
        if self._path is None:
            return self._held.get(what)
        file = self._beside(what)
        return read_limited(file, _LARGEST, links=False) if os.path.lexists(file) else None

    def _once(self, what: str, data: bytes) -> bytes:
        """Store a value permanently; return the stored value."""
        if self._path is None:
            return self._held.setdefault(what, data)
        with self._locked():  # a stick without hard links has no other way to agree on one winner
            put_once(self._beside(what), data, mode=0o600)
            return read_limited(self._beside(what), _LARGEST, links=False)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with locked(self._beside("lock"), wait=_PATIENCE):
                yield
        except Busy as error:
            raise TransportError(
                "another process is using these keys.", found=str(error), fix="let it finish, or end it"
            ) from None
        except OSError as error:
            raise TransportError(
                "the folder of the keys cannot be written to; nothing was sent.",
                found=error.strerror or type(error).__name__,
                fix="check its permissions and free space, then run the same command again",
            ) from None


def _refuse_left(path: Path) -> None:
    """Refuse to make keys beside the records of earlier keys: they would be tied to the earlier plan."""
    left = [name for what in _BESIDE if os.path.lexists(path.with_name(name := f"{path.name}.{what}"))]
    if left:
        raise PlanMismatch(
            "the secret keys are missing, but the files beside them are still there.",
            found=", ".join(left),
            fix="put the keys back, or make new ones under another name; lost keys make this entity a drop-out",
            parameter="keys",
        )


def _other_plan(plan_hash: str) -> PlanMismatch:
    return PlanMismatch(
        "these keys belong to another plan.",
        expected=f"new keys for the plan with hash {plan_hash[:12]}: keys of a secure sum serve one plan",
        fix="twofold keys new --renew with another file, and a plan with its public part",
        parameter="plan",
    )


def agreement_text(plan_hash: str, name: str) -> bytes:
    """Give the bytes that an agreement to a plan signs."""
    return f"{plan_hash} {name}".encode()


def _read(path: Path) -> Secrets:
    if not path.exists():
        raise UnreadableSource(
            "the file of secret keys does not exist.",
            found=path.name,
            fix=f"the file that this entity enrolled with; for a new plan twofold keys new --keys {path.name}",
            parameter="keys",
        )
    return Secrets.from_bytes(read_limited(path, LARGEST_PART))

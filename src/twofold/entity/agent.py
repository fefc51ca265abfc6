"""The entity: its ratings, the plan and the ledger, wired together. What it releases is charged and released once."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.checks import check_entity_name
from twofold.data.ratings import Ratings
from twofold.data.scan import Scan
from twofold.entity.account import NothingExpected, open_account, paid
from twofold.entity.gather import adder_of, bounded, release_sums
from twofold.errors import DataError, NotForRealUse, NotReady, PlanMismatch, PrivacyError, Run, Set
from twofold.federation.factors import ItemFactors
from twofold.federation.messages import ReleaseMessage, decode_release, encode_release, roster_of
from twofold.federation.plan import Plan
from twofold.privacy.events import Event, is_seeded
from twofold.privacy.ledger import Ledger
from twofold.privacy.rng import OperatingSystem, Source, source
from twofold.release.clamp import Sums, sums_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twofold.entity.adapt import Local, Strength
    from twofold.entity.model import Model
    from twofold.entity.secure import Masks, SecurePart
    from twofold.entity.site import Site
    from twofold.federation.agreement import Agreements
    from twofold.federation.reports import Report
    from twofold.identity.keys import Secrets
    from twofold.identity.keystore import KeyStore
    from twofold.storage.signing import SigningKey

__all__ = ["Entity", "bounded"]


class Entity:
    """One participant: what it holds, what it agreed to, and what it may still spend.

    Parameters
    ----------
    name : str
        Public name, in the header of the message.
    ratings : Ratings or Scan
        Private. Its catalog must be that of the plan; the plan says what an absent entry means. A `scan` is read batch
        by batch.
    plan : Plan
        Every public parameter.
    ledger : path or Ledger, optional
        Account of everything ever released about these people. If the file does not exist, a new ledger with room for
        this one plan is created, with a `NewLedger` warning. Without a ledger, only a simulation can release.
    version : str
        Public version of the data; with the plan, the key of the release. Chosen without looking at the data.
    rng : int or Source, optional
        Repeatable noise, for simulations only; the operating system's randomness by default.
    keys : path or Secrets, optional
        The entity's secret keys (`new_keys`), for a plan with a roster; for a secure sum in memory in simulations only.
    agreements : path, bytes or Agreements, optional
        Everybody's agreements to the plan. A plan that is not a simulation releases nothing without them.
    site : Site, optional
        Policy, approvals and security log of the entity's site.

    Paper
    -----
    An entity h of Algorithm 2.

    Privacy
    -------
    One message leaves, by `release`. Everything that shapes it (bounds, sizes, noise) comes from the plan. The cost is
    on disk before anything is drawn, and the bytes are stored before they are handed out: asking again gives the same
    bytes and spends nothing. The same holds after a kill at any instant: an interrupted draw is repeated from the same
    key (`twofold.privacy.ledger.keys`), if the ratings are the same. `personalize` sends nothing.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.read import read_ratings
    >>> import polars as pl
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> table = pl.DataFrame({"user": ["a", "a", "b"], "item": ["heparin", "lactate", "heparin"], "value": [1, 2, 9]})
    >>> ratings = read_ratings(table, catalog, user="user", item="item", value="value", feedback="counts")
    >>> plan = Plan(catalog=catalog, feedback="counts", bound=5, max_items=2, simulation=True)
    >>> hospital = Entity("st-anna", ratings, plan, rng=7)
    >>> sent = hospital.release()
    >>> sent.entity, sent.content.seeded, hospital.release().data == sent.data
    ('st-anna', True, True)
    """

    def __init__(
        self,
        name: str,
        ratings: Ratings | Scan,
        plan: Plan,
        *,
        ledger: str | PathLike[str] | Ledger | None = None,
        version: str = "1",
        rng: int | Source | None = None,
        keys: str | PathLike[str] | Secrets | None = None,
        agreements: str | PathLike[str] | bytes | Agreements | None = None,
        site: Site | None = None,
    ) -> None:
        self.name = check_entity_name(name)
        self.plan = _checked_plan(plan)
        self.version = version
        self._ratings = _checked_ratings(ratings, self.plan)
        self._ledger = ledger
        self._source = source(rng)
        self._keys = keys
        self.site = site
        self._store_made: KeyStore | None = None
        self._agreements: Agreements | None = None
        if agreements is not None:
            self.start(agreements)
        self._made: bytes | None = None
        self._part_made: SecurePart | None = None
        self._check_named()

    def __repr__(self) -> str:
        return f"Entity({self.name!r}, plan {self.plan.hash[:12]})"  # how many users there are is private

    @property
    def ratings(self) -> Ratings | Scan:
        """What it holds. Private."""
        return self._ratings

    @property
    def masked(self) -> bool:
        """Whether this entity's masked message was ever handed out; if so, its budget is spent."""
        return self.plan.peers is not None and self._part().store.masked

    def listed(self, participants: bytes, survivors: bytes | None = None) -> bool:
        """Whether this entity is in the lists that the server of a secure sum has published so far."""
        return self._part().listed(participants, survivors)

    def check_keys(self) -> None:
        """Refuse secret keys that are missing, somebody else's, or unfit for a secure sum; changes nothing."""
        if self.plan.roster is not None:
            self._store()
        if self.plan.peers is not None:
            self._part()

    def check_room(self) -> None:
        """Refuse a plan for which the ledger has no room, before anything is sent; a new ledger has room.

        Raises
        ------
        BudgetExceeded
            As `release` would, when others have agreed, shared keys and waited.

        Privacy
        -------
        Looks at the plan and the ledger only. Writes nothing.
        """
        where = self._ledger
        if where is None or (not isinstance(where, Ledger) and not Path(where).exists()):
            return
        event = self.plan.spec.event_for(seeded=self._source.seeded)
        open_account(where, self.plan, dataset=self._dataset, event=event).check_room(self.version)

    @property
    def started(self) -> bool:
        """Whether everybody's agreements are known here, or none are needed."""
        return self.plan.simulation or self._agreements is not None

    def agreement(self) -> bytes:
        """Give the entity's agreement to the plan, which a person has signed before: `twofold plan agree`.

        Raises
        ------
        NotReady
            Nobody here has agreed to this plan.
        """
        from twofold.federation.agreement import encode_agreement  # loads the library of ciphers

        signature = self._store().agreement(self.plan.hash)
        if signature is None:
            raise NotReady(
                "nobody here has agreed to this plan; nothing was sent.",
                expected=f"an agreement to plan {self.plan.hash[:12]}",
                fix=(Run("plan agree plan.toml --keys " + f"{self.name}.keys"), "twofold join with --agree"),
                parameter="agreements",
            )
        return encode_agreement(signature, self.plan, entity=self.name, signer=self._store().signer)

    def start(self, agreements: str | PathLike[str] | bytes | Agreements) -> None:
        """Take everybody's agreements, as published or from a file; refuse them unless they are complete."""
        from twofold.federation.agreement import Agreements, decode_agreed  # loads the library of ciphers

        if isinstance(agreements, bytes):
            self._agreements = decode_agreed(agreements, self.plan)
            return
        found = agreements if isinstance(agreements, Agreements) else Agreements.read(agreements)
        found.check(self.plan)
        self._agreements = found

    def share(self) -> bytes:
        """Give the entity's key shares, the first step of a secure sum. They carry no data and cost nothing.

        Raises
        ------
        PlanMismatch
            The plan has no secure sum, or the keys are those of another plan or another name.
        NotReady
            Not everybody has agreed to the plan, or nobody here has confirmed its fingerprint.
        BudgetExceeded
            The ledger has no room for this plan.
        """
        self._refuse_before_start()
        self.check_room()
        return self._part().shares()

    def answer(self, survivors: bytes | str | PathLike[str], participants: bytes | str | PathLike[str]) -> bytes:
        """Give the entity's answer to the list of survivors, the last step of a secure sum: shares of masks, no data.

        Parameters
        ----------
        survivors, participants : bytes or path
            What the server published.

        Raises
        ------
        TooFewMessages
            Fewer survivors than the plan requires. Nothing is unmasked.
        PrivacyError
            Another list was answered earlier.
        """
        self._refuse_before_start()
        return self._part().answer(survivors, participants)

    def release(self, participants: bytes | str | PathLike[str] | None = None) -> ReleaseMessage:
        """Give the entity's one message: drawn the first time, the stored bytes from then on.

        Parameters
        ----------
        participants : bytes or path, optional
            For a secure sum among the entities: who shared keys, as the server published it. The message is masked
            for them.

        Raises
        ------
        NotForRealUse
            Seeded noise, or no ledger, in a plan that is not a simulation.
        NotReady
            Not everybody has agreed to the plan.
        BudgetExceeded
            The ledger has no room for this plan. Nothing was drawn.

        Warns
        -----
        NewLedger
            A ledger was created, because there was none at this path.
        NothingExpected
            By public numbers alone, noise hides everything in the release of this plan; not for one paid for before.
        StaleRelease
            The stored message is older than these ratings. For the entity only.

        Paper
        -----
        Algorithm 2, line 2.
        """
        self._refuse_what_is_not_real()
        self._refuse_before_start()
        self.check_keys()  # now, not once the ledger has paid
        if self.plan.operators is not None:
            raise PlanMismatch(
                "this plan has two operators; nothing was drawn.", fix="Entity.report()", parameter="secure"
            )
        part = None if self.plan.peers is None else self._part()
        masks = None if part is None else part.masks(participants)
        message = decode_release(self._bytes(masks), self.plan)
        if masks is not None:
            masks.check(message)
        self._check_stored(message.entity)
        if part is not None:
            part.store.keep_message(message.receipt)
        if self.site is not None:
            self.site.released(self.plan, message.data)
        return message

    def report(self) -> Report:
        """Give the entity's one message for two operators: sealed the first time, the stored bytes from then on.

        Raises
        ------
        NotForRealUse, NotReady, BudgetExceeded
            As `release`; and nobody here has agreed to the plan, or compared its fingerprint.

        Privacy
        -------
        The exact sums leave in two shares that mean nothing alone. Both operators together can open them: whether they
        would is what a person here confirms.

        Paper
        -----
        Algorithm 2, line 2.
        """
        from twofold.federation.reports import decode_report  # loads the library of ciphers

        self._refuse_what_is_not_real()
        self._refuse_before_start()
        self.check_keys()  # now, not once the ledger has paid
        if self.plan.operators is None:
            raise PlanMismatch("the plan has no two operators.", fix="Entity.release()", parameter="secure")
        report = decode_report(self._bytes(), self.plan)
        self._check_stored(report.entity)
        if self.site is not None:
            self.site.released(self.plan, report.data)
        return report

    def _check_stored(self, name: str) -> None:
        if name != self.name:
            raise PlanMismatch(
                "the ledger holds this plan's release under another name.",
                found=name,
                expected=self.name,
                fix=f"Entity({name!r}, ...), or the ledger of {self.name}",
                parameter="entity",
            )

    def personalize(
        self,
        factors: ItemFactors | bytes | str | PathLike[str] | None,
        *,
        local: Local = "auto",
        strength: Strength = "auto",
        threads: int | None = None,
    ) -> Model:
        """Fit a local model to the shared item factors and the entity's own ratings; nothing leaves.

        Parameters
        ----------
        factors : ItemFactors, bytes, path or None
            What the server published. None fits the entity alone, as `fit_alone` does.
        local, strength
            Kind of local model, and how far it is pulled towards the shared factors; chosen by validation on the
            entity's own ratings if ``"auto"``.
        threads : int, optional
            All processors by default. The result does not depend on it.

        Raises
        ------
        PlanMismatch
            The factors belong to another plan or catalog.
        FactorsChanged
            The shared factors were changed during the fit.
        """
        from twofold.entity.personalize import fitted_model  # loads the solvers, which round 1 does without

        model = fitted_model(
            self.name, self._ratings, self.plan, factors, local=local, strength=strength, threads=threads
        )
        if self.site is not None and model.factors_hash:
            self.site.modelled(self.plan, model.factors_hash)
        return model

    @property
    def _dataset(self) -> str:
        """Name of the ledger's data set."""
        return self.name

    def _ledger_signer(self) -> SigningKey | None:
        return None if self.plan.roster is None else self._store().signer

    def _check_named(self) -> None:
        if self.plan.people and type(self) is Entity:
            raise PlanMismatch(
                "every entity of this plan is one person.", expected="a Person", fix="Person(...)", parameter="plan"
            )
        if self.plan.entities and self.name not in self.plan.entities:
            raise PlanMismatch(
                "the plan does not name this entity.",
                found=self.name,
                expected="a name in plan.entities",
                parameter="entity",
            )

    def _check_own(self, store: KeyStore) -> None:
        if roster_of(self.plan).entities.get(self.name) != store.identity:
            raise PlanMismatch(
                "the keys are not those that the plan lists under this name.",
                found=f"keys of {store.identity.name}",
                expected=f"the keys with which {self.name} enrolled",
                fix="use the right key file, or ask for a plan with the right roster",
                parameter="keys",
            )

    def _voucher(self) -> Mapping[str, str] | None:
        """Who vouches for a person; an institution is in the roster."""
        return None

    def _check_consent(self) -> None:
        _check_consent(self.plan, self._store())

    def _refuse_what_is_not_real(self) -> None:
        if self.plan.simulation:
            return
        if type(self._source) is not OperatingSystem:  # whatever a foreign source says about itself
            raise NotForRealUse(
                "repeatable noise protects nobody; nothing was drawn.",
                found="a seed, or your own source of noise",
                fix="leave rng out, or Plan(..., simulation=True), which marks everything 'not private'",
                parameter="rng",
            )
        if self._ledger is None:
            raise NotForRealUse(
                "there is no ledger to count this release; nothing was drawn.",
                expected="the ledger of these people",
                fix=f'Entity(..., ledger="{self.name}.ledger"), or Plan(..., simulation=True)',
                parameter="ledger",
            )

    def _refuse_before_start(self) -> None:
        """Refuse anything that leaves before everybody has agreed; a real plan without a roster has nobody to agree."""
        if self.plan.simulation:
            return
        roster_of(self.plan)
        if self._agreements is None:
            shared = self.plan.operators is not None
            raise NotReady(
                "the agreements to the plan are missing; nothing was drawn.",
                expected=f"signatures of plan {self.plan.hash[:12]} by "
                + ("its operators, in a file that comes with the plan" if shared else "all whom it names"),
                fix=("Entity(..., agreements=...)", Set("agreements", "plan.agreed") if shared else Run("join")),
                parameter="agreements",
            )
        if self.plan.operators is not None:
            self._check_consent()

    def _store(self) -> KeyStore:
        """The entity's secret keys, which must be those of the roster."""
        from twofold.identity.keystore import KeyStore  # loads the library of ciphers, which other plans do without

        if self._store_made is None:
            if self._keys is None:
                raise PlanMismatch(
                    "the plan has a roster, and the entity's secret keys are missing.",
                    fix=f'Entity(..., keys="{self.name}.keys"), or --keys {self.name}.keys',
                    parameter="keys",
                )
            store = KeyStore(self._keys)
            self._check_own(store)
            self._store_made = store
        return self._store_made

    def _part(self) -> SecurePart:
        from twofold.entity.secure import SecurePart  # loads the library of ciphers, which other plans do without
        from twofold.federation.key_messages import secure_terms

        if self._part_made is None:
            secure_terms(self.plan)
            self._part_made = SecurePart(self.name, self.plan, self._store(), version=self.version)
        return self._part_made

    def _bytes(self, masks: Masks | None = None) -> bytes:
        event = self.plan.spec.event_for(seeded=self._source.seeded)
        if self._ledger is None:
            if self._made is None:
                self._made = self._draw(event, self._source, masks)
            return self._made
        signer = self._ledger_signer()
        account = open_account(self._ledger, self.plan, dataset=self._dataset, event=event, signer=signer)
        if self.plan.useless and not paid(account.ledger, self.plan, self.version):
            warnings.warn(
                "this release will probably show nothing: by the plan's public numbers, noise hides even which items "
                "are frequent. Its price is spent all the same; see Plan.prediction.",
                NothingExpected,
                stacklevel=3,
            )
        if self.site is not None:
            self.site.clear(self.plan, account.ledger.state(), entity=self.name, version=self.version)
        version, sums = self.version, None
        if isinstance(self._ratings, Scan):
            if (stored := account.ledger.stored(plan=self.plan.hash, version=version)) is not None:
                return stored  # whether the files have changed since would take a pass over all of them
            sums = release_sums(self._ratings, self.plan)  # now: a pass that fails must cost nothing
            digest = sums_digest(sums)
        else:
            digest = self._ratings.digest()
        if isinstance(self._source, OperatingSystem):  # through a key of the ledger, so that a kill costs nothing
            return account.release(
                data=digest, version=version, draw=lambda noise: self._draw(event, noise, masks, sums)
            )
        return account.release(data=digest, version=version, draw=lambda: self._draw(event, self._source, masks, sums))

    def _draw(self, event: Event, noise: Source, masks: Masks | None, sums: Sums | None = None) -> bytes:
        """Run the mechanism; its event must be the one that was paid for. The same noise gives the same bytes."""
        plan, held = self.plan, self._ratings
        if isinstance(held, Scan):
            drawn = adder_of(plan).draw(release_sums(held, plan) if sums is None else sums, noise)
        else:
            drawn = plan.release_mechanism.release(bounded(held, plan).matrix, plan.parameters, rng=noise)
        if drawn.event != event or drawn.value.seeded != is_seeded(event):
            raise PrivacyError(
                "the mechanism did not do what was paid for; nothing is sent.",
                found=drawn.event.kind,
                expected=event.kind,
                fix="report this: the cost stays spent, and no message was made",
                parameter="event",
            )
        if self.plan.operators is not None:
            from twofold.federation.reports import encode_report  # loads the library of ciphers

            return encode_report(
                drawn.value, self.plan, entity=self.name, signer=self._store().signer, voucher=self._voucher()
            )
        content = drawn.value if masks is None else masks.hide(drawn.value)
        signer = None if self.plan.roster is None else self._store().signer
        return encode_release(content, entity=self.name, plan=self.plan, signer=signer)


def _check_consent(plan: Plan, store: KeyStore) -> None:
    """Refuse to seal a report before this entity has agreed to the plan and compared its fingerprint.

    Privacy
    -------
    A plan's writer who runs both operators reads everything. Whether they are two institutions that do not work
    together is for people to find out; this only makes sure that somebody here says that they did.
    """
    first, second = roster_of(plan).operators
    if store.agreement(plan.hash) is None:
        raise NotReady(
            "nobody here has agreed to this plan; nothing was sent.",
            expected=f"an agreement to plan {plan.hash[:12]}",
            fix=(Run(f"plan agree plan.toml --keys {store.identity.name}.keys"), "twofold join with --agree"),
            parameter="agreements",
        )
    if not store.confirmed(plan.hash):
        raise NotReady(
            "nobody here has confirmed the plan's fingerprint; nothing was sent.",
            expected=f"the fingerprints of {first} and {second}, compared with people you know there: an author of the "
            "plan who runs both operators reads your numbers",
            fix=Run("join --confirm"),
            parameter="confirm",
        )


def _checked_plan(plan: Any) -> Plan:
    if not isinstance(plan, Plan):
        raise DataError("not a plan.", found=f"a {type(plan).__name__}", fix='Plan.read("plan.toml")', parameter="plan")
    return plan


def _checked_ratings(ratings: Any, plan: Plan) -> Ratings | Scan:
    """Refuse ratings whose columns differ from the plan's; read absent entries as the plan says."""
    if not isinstance(ratings, (Ratings, Scan)):
        raise DataError(
            "not ratings.", found=f"a {type(ratings).__name__}", fix="read_ratings(...)", parameter="ratings"
        )
    if ratings.catalog.hash != plan.catalog.hash:
        raise PlanMismatch(
            "the ratings were read with a catalog that is not the plan's.",
            found=f"catalog {ratings.catalog.hash[:12]} of {len(ratings.catalog):,} items",
            expected=f"catalog {plan.catalog.hash[:12]} of {plan.n_items:,} items",
            fix="read them with the catalog file of the plan",
            parameter="catalog",
        )
    if isinstance(ratings, Scan):
        adder_of(plan)  # refuses a plan that needs all rows at once
    return ratings.as_feedback(plan.feedback)  # the plan is what all sides agreed on

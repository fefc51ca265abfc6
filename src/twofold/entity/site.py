"""What belongs to the site of an entity and no plan overrides: its policy, its approvals and its security log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from twofold import __version__
from twofold.errors import BadPolicy, PrivacyError
from twofold.federation.messages import message_limit, roster_of
from twofold.federation.plan import Plan
from twofold.identity.clearance import clearance
from twofold.identity.keystore import KeyStore
from twofold.identity.log import Event, SecurityLog
from twofold.identity.policy import PlanFacts, Policy
from twofold.privacy.ledger import LedgerState
from twofold.privacy.ledger.state import Cost
from twofold.storage.container import receipt

__all__ = ["Site", "plan_facts"]

#: Name of a site's policy in the folder of its keys.
POLICY = "policy.toml"


def plan_facts(plan: Plan, *, spent: Cost | None = None) -> PlanFacts:
    """Give the public values of a plan that a policy looks at.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2, n_users=500)
    >>> plan_facts(plan).n_users, plan_facts(plan).secure
    (500, 'none')
    """
    before = spent or Cost()
    members = None if plan.roster is None else roster_of(plan)
    return PlanFacts(
        plan=plan.hash,
        name=plan.name,
        epsilon=plan.epsilon,
        delta=plan.delta,
        spent_epsilon=before.epsilon,
        spent_delta=before.delta,
        n_users=plan.n_users,
        entities=plan.entities,
        mechanism=plan.spec.mechanism,
        secure="none" if plan.secure is None else "peers",
        colluders=0 if plan.secure is None else plan.secure.colluders,
        writer=None if members is None or plan.writer is None else members[plan.writer].sign,
        operators=() if members is None else tuple(one.sign for one in members.operators.values()),
        simulation=plan.simulation,
    )


@dataclass(frozen=True, kw_only=True)
class Site:
    """Policy, drafts and log of one entity.

    Parameters
    ----------
    log : SecurityLog
        Of this entity.
    policy : Policy, optional
        Without one, nothing is refused and nobody has to approve.
    drafts : Path
        Folder for drafts and approvals.

    Privacy
    -------
    Looks at the plan and the ledger only: whether it refuses, and what it writes, is the same for every data set.
    """

    log: SecurityLog
    policy: Policy | None = None
    drafts: Path

    @classmethod
    def of(cls, store: KeyStore, keys: str | PathLike[str], policy: str | PathLike[str] | None = None) -> Site:
        """Give the site of a file of keys: its policy, by default the one beside the keys, and the log.

        Parameters
        ----------
        store, keys : KeyStore, path
            The entity's keys, and where they are.
        policy : path, optional
            The policy; by default ``policy.toml`` beside the keys if there is one, and then no other. It names the
            log; without a policy the log is beside the keys, as ``st-anna.log`` for ``st-anna.keys``.
        """
        place = Path(keys)
        beside = place.with_name(POLICY)
        here = os.path.lexists(beside)  # a link that leads nowhere is a policy that cannot be read, and not none
        if here and policy is not None and not (beside.exists() and Path(policy).exists() and beside.samefile(policy)):
            raise BadPolicy(
                "another policy is beside the keys, and no option overrides it.",
                found=Path(policy).name,
                expected=f"the site's {POLICY}",
                fix="leave the option out, or ask the owner of the policy",
                parameter="policy",
            )
        file = Path(policy) if policy is not None else beside if here else None
        rules = None if file is None else Policy.read(file)
        path = place.with_suffix(".log") if rules is None or file is None else rules.log_path(file)
        earlier = (store.identity.replaces,) if store.identity.replaces else ()
        log = SecurityLog(path, store.signer, entity=store.identity.name, earlier=earlier)
        return cls(log=log, policy=rules, drafts=place.parent)

    def agreed(self, plan: Plan) -> None:
        """Refuse an agreement that the policy does not allow, and log one that it does."""
        if self.policy is not None:
            facts = plan_facts(plan)
            if broken := self.policy.violations(facts):
                rules = [one.rule for one in broken]
                self.log.add_after(
                    Event.POLICY_REFUSED, once=True, plan=plan.hash, policy=self.policy.hash, rules=rules
                )
                self.policy.check(facts)
        self.log.add_once(Event.PLAN_AGREED, plan=plan.hash)

    def confirmed(self, plan: Plan) -> None:
        """Log that the fingerprint was compared."""
        self.log.add_once(Event.PLAN_CONFIRMED, plan=plan.hash)

    def clear(self, plan: Plan, state: LedgerState, *, entity: str, version: str) -> None:
        """Check the policy and the approvals before the ledger is asked; a stored release needs neither again."""
        same = [one for one in state.entries if one.key == (plan.hash, version)]
        if any(one.status == "released" for one in same) or self.policy is None:
            return
        spent = sum((one.cost for one in state.entries if one not in same), Cost())
        if not plan.spec.private:
            raise PrivacyError("a mechanism without a promise is not released under a policy.", parameter="mechanism")
        clearance(
            policy=self.policy,
            facts=plan_facts(plan, spent=spent),
            log=self.log,
            draft_file=self.drafts / f"{entity}.draft",
            entity=entity,
            version=version,
            leaves=plan.spec.what,
            size=message_limit(plan),
            unit=plan.unit.holder,
            software=f"twofold {__version__}",
        )

    def released(self, plan: Plan, data: bytes) -> None:
        """Log the release before it is handed out; without the line it is not."""
        self.log.add_once(Event.RELEASED, plan=plan.hash, digest=receipt(data))

    def sent(self, plan: Plan, data: bytes) -> None:
        """Log a message that has left."""
        self.log.add_after(Event.SENT, once=True, plan=plan.hash, digest=receipt(data))

    def received(self, plan: Plan, data: bytes) -> None:
        """Log what the server published."""
        self.log.add_after(Event.RECEIVED, once=True, plan=plan.hash, digest=receipt(data))

    def modelled(self, plan: Plan, factors: str) -> None:
        """Log a model by the item factors that it was made with."""
        self.log.add_after(Event.MODEL_MADE, once=True, plan=plan.hash, factors=factors)

"""What belongs to the site of an entity and no plan overrides: its policy, its approvals and its security log."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
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
from twofold.privacy.budget import best_guess
from twofold.privacy.ledger import LedgerState
from twofold.privacy.ledger.state import Cost
from twofold.privacy.printed import percent, rounded_up
from twofold.storage.container import receipt

__all__ = ["Site", "plan_facts"]

#: Name of a site's policy in the folder of its keys.
POLICY = "policy.toml"


def plan_facts(plan: Plan, *, spent: Cost | None = None, ceiling: Cost | None = None) -> PlanFacts:
    """Give the public values of a plan and a ledger that a policy looks at and a draft shows.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2, n_users=500)
    >>> plan_facts(plan).n_users, plan_facts(plan).secure
    (500, 'none')
    """
    before = spent or Cost()
    stated = plan.spec.sum if plan.secure is not None else None
    members = None if plan.roster is None else roster_of(plan)
    return PlanFacts(
        plan=plan.hash,
        name=plan.name,
        epsilon=plan.epsilon,
        delta=plan.delta,
        spent_epsilon=before.epsilon,
        spent_delta=before.delta,
        ceiling_epsilon=None if ceiling is None else ceiling.epsilon,
        ceiling_delta=None if ceiling is None else ceiling.delta,
        guess=percent(best_guess(float(plan.epsilon), float(plan.delta))) if plan.spec.private else "",
        alone="" if stated is None else _up(stated.alone_epsilon),
        honest=0 if plan.parameters.operators else plan.parameters.honest,
        n_users=plan.n_users,
        entities=plan.entities,
        mechanism=plan.spec.mechanism,
        secure="none" if plan.secure is None else "peers" if plan.operators is None else "operators",
        colluders=_withstood(plan),
        writer=None if members is None or plan.writer is None else members[plan.writer].sign,
        operators=() if members is None else tuple(one.sign for one in members.operators.values()),
        simulation=plan.simulation,
    )


def _withstood(plan: Plan) -> int:
    """How many participants may work with the server, or with one operator, before the price is no longer true.

    Where each operator adds a whole noise, all of them may.
    """
    if plan.secure is None:
        return 0
    return plan.expected_entities - 1 if plan.parameters.operators else plan.secure.colluders


def _leaves(plan: Plan) -> str:
    if plan.operators is None:
        return plan.spec.what
    noise = ", without noise of its own" if plan.operators.noise == "operators" else ""
    seen = "; that this person sends something is seen" if plan.people else ""
    least = f"nothing is published of fewer than {plan.operators.floor:,} entities"
    return f"{plan.spec.what}{noise}, in two sealed shares for two operators; {least}{seen}"


def _up(amount: float) -> str:
    return rounded_up(Fraction(amount) if math.isfinite(amount) else math.inf)


@dataclass(frozen=True, kw_only=True)
class Site:
    """Policy, drafts and log of one entity.

    Parameters
    ----------
    log : SecurityLog
        Of this entity.
    policy : Policy, optional
        Without one, nothing is refused and nobody has to approve.
    policy_file : Path, optional
        Where the policy is.
    drafts : Path
        Folder for drafts and approvals.

    Privacy
    -------
    Looks at the plan and the ledger only: whether it refuses, and what it writes, is the same for every data set.
    """

    log: SecurityLog
    policy: Policy | None = None
    policy_file: Path | None = None
    drafts: Path

    @classmethod
    def of(cls, store: KeyStore, keys: str | PathLike[str], policy: str | PathLike[str] | None = None) -> Site:
        """Give the site of a file of keys: its policy, by default the one beside the keys, and the log.

        Parameters
        ----------
        store, keys : KeyStore, path
            The entity's keys, and where they are.
        policy : path, optional
            The policy; by default ``policy.toml`` beside the keys. If that is there, a file with another content is
            refused. The policy names the log; without one it is beside the keys, as ``st-anna.log``.

        Raises
        ------
        BadPolicy
            The policy cannot be read, or is not the one beside the keys.
        """
        place, name = Path(keys), store.identity.name
        beside = place.with_name(POLICY)
        here = os.path.lexists(beside)  # a link that leads nowhere is a policy that cannot be read, and not none
        file = beside if here else None if policy is None else Path(policy)
        rules = None if file is None else Policy.read(file)
        if here and policy is not None and rules is not None and Policy.read(policy).hash != rules.hash:
            raise BadPolicy(
                "another policy is beside the keys, and no option replaces it.",
                found=Path(policy).name,
                expected=f"policy {rules.hash[:8]}, the site's {POLICY}",
                fix="leave the option out, or ask the owner of the policy",
                parameter="policy",
            )
        path = place.with_name(f"{name}.log") if rules is None or file is None else rules.log_path(file, name)
        earlier = (store.identity.replaces,) if store.identity.replaces else ()
        log = SecurityLog(path, store.signer, entity=name, earlier=earlier)
        return cls(log=log, policy=rules, policy_file=file, drafts=place.parent)

    @property
    def policy_hash(self) -> str | None:
        """Hash of the policy; None if there is none."""
        return None if self.policy is None else self.policy.hash

    @property
    def line(self) -> str:
        """Say under which policy this site stands, or that there is none."""
        if self.policy is None or self.policy_file is None:
            return "no policy: nothing limits what may leave this site"
        return f"policy {self.policy.hash[:8]} ({self.policy_file.name})"

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
        # A draw that was lost stays spent and is paid for again.
        same = [one for one in state.entries if one.key == (plan.hash, version) and one.status != "lost"]
        if any(one.status == "released" for one in same) or self.policy is None:
            return
        spent = sum((one.cost for one in state.entries if one not in same), Cost())
        if not plan.spec.private:
            raise PrivacyError("a mechanism without a promise is not released under a policy.", parameter="mechanism")
        clearance(
            policy=self.policy,
            facts=plan_facts(plan, spent=spent, ceiling=state.ceiling),
            log=self.log,
            draft_file=self.drafts / f"{entity}.draft",
            entity=entity,
            version=version,
            leaves=_leaves(plan),
            size=message_limit(plan),
            unit=plan.unit.holder,
            software=f"twofold {__version__}",
            policy_file=self.policy_file,
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

"""What scikit-learn expects of an estimator, without importing it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, Self

from twofold.errors import BadParameter
from twofold.protocol.plan import Plan

__all__ = ["Conventions"]

#: Fields of the plan are parameters of the estimator under this prefix.
_PLAN = "plan__"


class Conventions:
    """Parameters by name, cloning, repr and tags; `plan__FIELD` names a field of the plan."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by name; with `deep` the fields of the plan too."""
        found = {name: getattr(self, name) for name in self._names()}
        plan = found.get("plan")
        if deep and isinstance(plan, Plan):
            found |= {_PLAN + one.name: getattr(plan, one.name) for one in fields(plan)}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; unknown names are refused before anything is changed."""
        inner = {name.removeprefix(_PLAN): value for name, value in parameters.items() if name.startswith(_PLAN)}
        outer = {name: value for name, value in parameters.items() if not name.startswith(_PLAN)}
        unknown = (set(inner) - {one.name for one in fields(Plan)}) | (set(outer) - set(self._names()))
        if unknown:
            names = ", ".join(self._names())
            raise BadParameter("there is no such parameter.", found=", ".join(sorted(unknown)), expected=names)
        if inner:
            outer["plan"] = outer.get("plan", self.get_params(deep=False)["plan"]).with_(**inner)
        for name, value in outer.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params(deep=False).items() if value is not defaults[name]}
        parts = [f"{name}={_short(value)}" for name, value in changed.items()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __sklearn_clone__(self) -> Self:
        """Make an unfitted copy; parameters are shared, since plans do not change and a pool cannot be copied."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` went through."""
        return hasattr(self, "models_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, the only one to ask: it wants a table with named columns."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, categorical=True),
            non_deterministic=True,
        )

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)


def _short(value: object) -> str:
    return f"<plan {value.name} {value.hash[:12]}>" if isinstance(value, Plan) else f"{value!r:.80}"

"""One table of fields: each declaration alone gives a field's meaning, range, default and example.

`Plan` and `SecureSum` are `FieldTable`s (pydantic models). The comments of a plan file, the options of `twofold plan
new`, the errors and the reference page are all made from the declarations; see docs/decisions/0012.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.fields import FieldInfo

from twofold.checks import LARGEST, shown
from twofold.errors import BadPlan, TwofoldError
from twofold.privacy.budget import positive, read_delta
from twofold.storage.container import printable

__all__ = [
    "MOST",
    "Delta",
    "Epsilon",
    "FieldNote",
    "FieldTable",
    "Number",
    "Time",
    "Whole",
    "WholeFromZero",
    "check_names",
    "check_time",
    "described",
    "reference",
]

#: Of a whole number in a plan; every reader of JSON takes it.
MOST: Final = 10**15
_BITS: Final = 400


def described(
    meaning: str,
    *,
    default: Any = ...,
    suggested: Callable[[dict[str, Any]], Any] | None = None,
    default_text: str = "",
    expected: str = "",
    example: Any = None,
    option: bool = True,
) -> Any:
    """Declare a field of a table.

    Parameters
    ----------
    meaning : str
        One or two sentences: the comment in a plan file, the help of the option, the row of the reference page.
    default : object
        Its value when nothing is said; required when left out.
    suggested : callable, optional
        Computes the default from the fields before it.
    default_text : str
        What the default is, in words, where a value does not say it.
    expected : str
        What a value must be, in words, where the type does not say it.
    example : object
        Shown in a plan file where the field is left out.
    option : bool
        Whether `twofold plan new` has an option of the same name.
    """
    extra = {"default_text": default_text, "expected": expected, "example": example, "option": option}
    if suggested is not None:
        return Field(default_factory=suggested, description=meaning, json_schema_extra=extra)
    return Field(default=default, description=meaning, json_schema_extra=extra)


@dataclass(frozen=True, kw_only=True)
class FieldNote:
    """Meaning, range and default of one field.

    Parameters
    ----------
    name : str
        As in Python and in a plan file.
    meaning, expected, default : str
        What it means, what a value must be, and what it is when nothing is said; empty where it is required.
    example : object
        A value that could stand there.
    option : bool
        Whether `twofold plan new` has an option for it.
    kind : type
        Type of a value as a shell gives it: int, float, bool or str.
    optional : bool
        Whether None is a value, which means "none".
    """

    name: str
    meaning: str
    expected: str
    default: str
    example: object
    option: bool
    kind: type[Any]
    optional: bool


class FieldTable(BaseModel):
    """A frozen, strict model that raises twofold errors, with the faulty field as `parameter`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True)
    #: Stands before the names of fields in errors and files.
    prefix: ClassVar[str] = ""

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _refusal(type(self), error) from None

    @classmethod
    def notes(cls) -> tuple[FieldNote, ...]:
        """Meaning, range and default of each field, in the order of the declarations."""
        return tuple(_note(name, info) for name, info in cls.model_fields.items())

    @classmethod
    def note(cls, name: str) -> FieldNote:
        """Meaning, range and default of one field."""
        return _note(name, cls.model_fields[name])


def check_names(given: Iterable[object], known: Iterable[str], *, optional: Iterable[str] = ()) -> None:
    """Refuse unknown and missing fields by name, and suggest the name that was probably meant.

    Examples
    --------
    >>> check_names(["max_item"], ["max_items", "rank"], optional=["rank"])
    Traceback (most recent call last):
    twofold.errors.BadPlan: the plan has an unknown field...
    """
    names, wanted = {str(one) for one in given}, set(known)
    for name in sorted(names - wanted):
        near = get_close_matches(name, sorted(wanted), n=1)
        listed = f"perhaps {near[0]}" if near else f"one of {', '.join(sorted(wanted))}"
        shown = printable(name, 40)
        raise BadPlan("the plan has an unknown field.", found=shown, expected=listed, parameter=shown)
    if missing := sorted(wanted - names - set(optional)):
        raise BadPlan(
            "the plan is incomplete.",
            found=f"missing {', '.join(missing)}",
            fix="add them; twofold plan new writes a file with every field and what it means",
            parameter=missing[0],
        )


def check_time(text: object) -> str:
    """Bring a time to one form, in UTC.

    Examples
    --------
    >>> check_time("2027-01-31T13:00:00+01:00")
    '2027-01-31T12:00:00Z'
    """
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
        if when is not None and when.tzinfo is not None:
            return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        pass
    raise BadPlan("{parameter} is not a time.", found=shown(text), expected="as 2027-01-31T12:00:00Z")


def reference(table: type[FieldTable]) -> str:
    """Write the table of fields as Markdown, for the reference page.

    Examples
    --------
    >>> from twofold.federation.secure import SecureSum
    >>> print(reference(SecureSum).splitlines()[2][:30])
    | `secure.survivors` | Fewest
    """
    lines = ["| field | meaning | value | default |", "|---|---|---|---|"]
    for one in table.notes():
        lines.append(f"| `{table.prefix}{one.name}` | {one.meaning} | {one.expected} | {one.default or 'required'} |")
    return "\n".join(lines) + "\n"


def _exact(read: Callable[..., Fraction], **more: Any) -> Callable[[Any], Fraction]:
    def check(value: Any) -> Fraction:
        exact = read(value, **more)
        if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _BITS:
            raise BadPlan(
                "{parameter} has too many digits.", expected=f"at most {_BITS} bits above and below its fraction bar"
            )
        return exact

    return check


#: A whole number from 1, or from 0.
Whole = Annotated[int, Field(ge=1, le=MOST)]
WholeFromZero = Annotated[int, Field(ge=0, le=MOST)]
#: A finite number; -0.0 becomes 0.0, because equal plans have equal hashes.
Number = Annotated[
    float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False), AfterValidator(lambda value: float(value) + 0.0)
]
#: Exact fractions.
Epsilon = Annotated[Fraction, PlainValidator(_exact(positive, name="epsilon"))]
Delta = Annotated[Fraction, PlainValidator(_exact(read_delta))]
Time = Annotated[str, PlainValidator(check_time)]


def _note(name: str, info: FieldInfo) -> FieldNote:
    extra: Mapping[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    several = () if get_origin(info.annotation) is Literal else get_args(info.annotation)
    kinds = [one for one in several if one is not type(None)] or [info.annotation]
    default = str(extra.get("default_text") or "")
    if not default and info.default_factory is None and not info.is_required():
        default = "none" if info.default is None else _text(info.default)
    return FieldNote(
        name=name,
        meaning=info.description or "",
        expected=str(extra.get("expected") or "") or _range(info, kinds[0]),
        default=default,
        example=extra.get("example"),
        option=bool(extra.get("option", False)),
        kind=_kind(kinds[0]),
        optional=type(None) in get_args(info.annotation),
    )


def _kind(annotation: Any) -> type[Any]:
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return plain if plain in (int, float, bool) else str


def _range(info: FieldInfo, annotation: Any) -> str:
    """Say which values a field takes, from its type and its limits."""
    limits = [one for part in get_args(annotation)[1:] for one in getattr(part, "metadata", ())]
    least = next((one.ge for one in [*info.metadata, *limits] if hasattr(one, "ge")), None)
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{one}"' for one in get_args(annotation))
    names = {int: "a whole number", float: "a finite number", bool: "true or false"}
    text = names.get(_kind(annotation), "text")
    return f"{text} from {least:g}" if isinstance(least, int) else text


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return f"{float(value):g}"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _refusal(table: type[FieldTable], error: ValidationError) -> TwofoldError:
    """Report the first fault as a twofold error."""
    every = error.errors(include_url=False)
    known = [*table.model_fields]
    strange = [str(one["loc"][0]) for one in every if one["type"] == "extra_forbidden"]
    lacking = [str(one["loc"][0]) for one in every if one["type"] == "missing"]
    if strange or lacking:
        given = [name for name in known if name not in lacking] + strange
        try:
            check_names([table.prefix + name for name in given], [table.prefix + name for name in known])
        except BadPlan as found:
            return found
    first = every[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, TwofoldError):
        own = inner.parameter not in (None, name)  # a part of the value, such as one entity's name
        return inner.as_(BadPlan) if own else BadPlan(**{**inner.parts, "parameter": table.prefix + name})
    return BadPlan(
        "{parameter} is out of range.",
        found=re.sub(r"\s+", " ", shown(first["input"])),
        expected=table.note(name).expected,
        parameter=table.prefix + name,
    )

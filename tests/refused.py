"""What tests say of a refusal: its type, the parameter at fault and the facts it states; never its prose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from twofold.errors import TwofoldError


@contextmanager
def refused(
    kind: type[TwofoldError],
    parameter: str | None = None,
    *facts: str,
    found: str | None = None,
    expected: str | None = None,
) -> Iterator[pytest.ExceptionInfo[TwofoldError]]:
    """Expect an error of exactly this type, parameter and facts.

    Parameters
    ----------
    kind : type
        Not a parent of the error's type.
    parameter : str, optional
        What it names as at fault; not looked at when None.
    facts : str
        Numbers and names that the message holds.
    found, expected : str, optional
        Facts that stand in these parts of it.
    """
    with pytest.raises(kind) as caught:
        yield caught
    check_refusal(caught.value, kind, parameter, *facts, found=found, expected=expected)


def check_refusal(
    error: BaseException | None,
    kind: type[TwofoldError],
    parameter: str | None = None,
    *facts: str,
    found: str | None = None,
    expected: str | None = None,
) -> TwofoldError:
    """Check an error at hand, as that of a command; see `refused`."""
    assert isinstance(error, kind), f"{type(error).__name__}: {error}"
    assert error.anchor() == kind.anchor(), (
        f"{type(error).__name__}: {error}"
    )  # by name: scikit-learn's is one more class
    assert parameter in (None, error.parameter), f"{error.parameter!r}: {error}"
    for part, fact in ((error.found, found), (error.expected, expected), *((str(error), fact) for fact in facts)):
        assert fact is None or fact in str(part), f"{fact!r} is not in {part!r}"
    return error

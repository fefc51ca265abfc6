"""Two operators and their entities, in memory or in folders, for tests of the state machine."""

from __future__ import annotations

import random
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.operators.forge import OPERATORS, World, halves_of, report, world
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import InProcess
from twofold.federation.messages import modulus_bits
from twofold.identity.keystore import KeyStore
from twofold.release.bilinear.mechanism import Bilinear
from twofold.secure_sum.operators import joined_sum
from twofold.server.coordinate import CoordinationStatus
from twofold.server.operate import operate
from twofold.server.operator import Operator

Numbers = NDArray[np.int64]


class Two:
    """Both operators of a simulation; every call makes them anew, as if they had been killed in between."""

    def __init__(self, folder: Path, *, entities: int = 3, floor: int = 2, deadline: str | None = None) -> None:
        self.made: World = world(entities, floor, 1, deadline)
        self.plan, self.names, self.folder = self.made.plan, self.made.names, folder
        rng = random.Random(entities)
        self.numbers: dict[str, Numbers] = {
            name: np.array([rng.randrange(-99, 99) for _ in range(self.made.length)]) for name in self.names
        }
        self.reports = {name: report(self.made, name, self.numbers[name]) for name in self.names}
        folder.mkdir(parents=True, exist_ok=True)
        for place, name in enumerate(OPERATORS):
            (folder / f"{name}.keys").write_bytes(self.made.operator(place).to_bytes())

    def keys(self, place: int) -> KeyStore:
        """Secret keys in a file, with what was recorded beside them."""
        return KeyStore(self.folder / f"{OPERATORS[place]}.keys")

    def operator(self, place: int, state: str | None = None) -> Operator:
        """An operator that was just started."""
        return Operator(self.plan, self.keys(place), state=self.folder / (state or OPERATORS[place]), rng=place)

    def half(self, name: str, place: int) -> bytes:
        """What one operator needs of a report."""
        return halves_of(self.reports[name], self.plan)[place]

    def look(
        self, place: int, box: InProcess | ServerFolder, *, close: bool = False, forward: bool = False
    ) -> CoordinationStatus:
        """Let an operator look once."""
        one = self.operator(place)
        try:
            return operate(one, box, close=close, forward=forward)
        finally:
            one.book.close()

    @cached_property
    def noise(self) -> Numbers:
        """Both noises, which seeds decide here."""
        mechanism = self.plan.release_mechanism
        assert isinstance(mechanism, Bilinear)
        first, second = (mechanism.operator_noise(self.plan.parameters, rng=place) for place in (0, 1))
        return first + second

    def total(self, names: tuple[str, ...] | None = None) -> Numbers:
        """The sum that must come out."""
        exact = sum(self.numbers[name] for name in names or self.names) + self.noise
        return joined_sum([exact.astype(np.uint64)], bits=modulus_bits(self.plan))

    def opened(self, place: int) -> Numbers:
        """The sum that an operator knows."""
        total = self.operator(place).total()
        assert total is not None
        return total.numbers

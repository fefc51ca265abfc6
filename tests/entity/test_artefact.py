"""A model on disk: whole or not at all, the same bytes for the same model, and never anything but our error."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.entity.artefact import SCHEMA, decode_model, encode_model
from twofold.entity.model import Model
from twofold.entity.models.stack import StackScorer
from twofold.errors import BadIdentifier, BadModel, TransportError
from twofold.storage.container import BLANK, open_container, pack, pack_sealed

MakeModel = Callable[..., Model]


def rewritten(data: bytes, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> bytes:
    """Change record and arrays and seal again, as somebody would who knows the format."""
    record, arrays = open_container(data).record, {name: np.array(part) for name, part in load(data).items()}
    change(record, arrays)
    return pack_sealed(record, arrays)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_model_comes_back_whole(kind: str, feedback: str, make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(kind, feedback=feedback)
    path = model.save(tmp_path / "st-anna.model")
    back = Model.load(path)
    for name in ("entity", "plan", "factors_hash", "private", "strength", "note", "validation", "catalog"):
        assert getattr(back, name) == getattr(model, name)
    assert back.history.digest() == model.history.digest()
    assert back.recommend_all(n=30).equals(model.recommend_all(n=30))
    assert back.recommend("user-0") == model.recommend("user-0")
    assert str(back.explain("user-0", "item-5")) == str(model.explain("user-0", "item-5"))
    assert path.stat().st_mode & 0o077 == 0


def test_equal_models_give_equal_bytes(kind: str, make_model: MakeModel) -> None:
    first = encode_model(make_model(kind))
    assert first == encode_model(make_model(kind)) == encode_model(decode_model(first))
    assert first != encode_model(make_model(kind, note="another"))


@pytest.mark.parametrize("strength", [0.0, float("inf"), 1 / 3])
def test_every_strength_comes_back(strength: float, make_model: MakeModel) -> None:
    assert decode_model(encode_model(make_model(strength=strength))).strength == strength


def test_figures_that_json_has_no_number_for_come_back(make_model: MakeModel) -> None:
    model = make_model(validation=({"gain": np.float32(0.5), "strength": float("inf"), "error": float("nan")},))
    (back,) = decode_model(encode_model(model)).validation
    assert (back["gain"], back["strength"]) == (0.5, float("inf"))
    assert np.isnan(back["error"])


def test_ids_of_every_kind_come_back(make_model: MakeModel) -> None:
    model = make_model(users=[10**12 + at for at in range(40)], catalog=Catalog([f"ä-{at}" for at in range(30)]))
    back = decode_model(encode_model(model))
    assert list(back.history.user_ids) == list(model.history.user_ids)
    assert back.recommend(10**12) == model.recommend(10**12)
    with refused(BadIdentifier, "ids"):
        encode_model(make_model(users=[0.5 + at for at in range(40)]))


def test_it_loads_in_another_process(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model("item-item")
    model.save(tmp_path / "one.model")
    code = "import sys; from twofold.entity.model import Model; print(Model.load(sys.argv[1]).recommend('user-0', n=3))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code, str(tmp_path / "one.model")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str(model.recommend("user-0", n=3))


def test_a_file_of_another_version_of_the_same_format_loads(make_model: MakeModel) -> None:
    def later(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        record["content"]["software"] = "twofold 9.9"
        record["content"]["a field of tomorrow"] = [1, 2]

    model = make_model()
    assert decode_model(rewritten(encode_model(model), later)).recommend("user-0") == model.recommend("user-0")


def test_a_file_of_another_format_says_so(make_model: MakeModel) -> None:
    def other(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        record["schema"] = "twofold.model/2"

    with refused(BadModel, None, found="format 2", expected="format 1"):
        decode_model(rewritten(encode_model(make_model()), other))
    assert SCHEMA == "twofold.model/1"


def test_a_cut_file_and_a_longer_one_say_so(make_model: MakeModel, tmp_path: Path) -> None:
    data, path = encode_model(make_model()), tmp_path / "one.model"
    for size in (0, 5, 8, 100, 3000, len(data) - 1):
        path.write_bytes(data[:size])
        with refused(BadModel, None, "one.model", "twofold personalize", found=f"{size:,} bytes"):
            Model.load(path)
    path.write_bytes(data + b"\0")
    with refused(BadModel, None, "one.model", found=f"{len(data) + 1:,} bytes", expected=f"{len(data):,} bytes"):
        Model.load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.model"
    foreign = (
        b"PAR1" + bytes(200),
        b"PK\x03\x04" + bytes(200),
        b"\x80\x04\x95" + bytes(200),
        json.dumps({"schema": SCHEMA}).encode() * 20,
        bytes(300),
        b"\xff" * 300,
        save({"x": np.ones(3)}),
        save({"x": np.ones(3)}, metadata={"twofold": "{}"}),
        pack({"schema": "twofold.prototypes/1"}, {"x": np.ones(3)}),
    )
    for data in foreign:
        path.write_bytes(data)
        with pytest.raises(BadModel):
            Model.load(path)


def test_a_file_that_is_not_there_or_a_folder_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(TransportError):
        Model.load(tmp_path / "none.model")
    with pytest.raises(TransportError):
        Model.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(make_model: MakeModel, tmp_path: Path) -> None:
    path = make_model().save(tmp_path / "one.model")
    before = path.read_bytes()
    with pytest.raises(BadIdentifier):
        make_model(users=[0.5 + at for at in range(40)]).save(path)
    with pytest.raises(TransportError):
        make_model().save(tmp_path / "no-folder" / "one.model")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["one.model"]


def test_a_checksum_that_is_missing_or_elsewhere_is_refused(make_model: MakeModel) -> None:
    record, arrays = open_container(data := encode_model(make_model())).record, load(data)
    for change in ({"a": 1, "checksum": BLANK}, {"checksum": 5}, {"checksum": "x" * 64}, {"checksum": ""}):
        with pytest.raises(BadModel):
            decode_model(pack({**record, **change}, arrays))


def test_a_note_longer_than_any_header_is_refused(make_model: MakeModel) -> None:
    with refused(BadModel, "header"):
        encode_model(make_model(note="x" * 70_000))


def test_every_flipped_byte_of_the_header_is_noticed(make_model: MakeModel) -> None:
    data = encode_model(make_model())
    end = 8 + int.from_bytes(data[:8], "little")
    for at in range(end):
        with pytest.raises(BadModel):
            decode_model(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_thousand_mutated_files_give_only_our_error(kind: str, make_model: MakeModel) -> None:
    rng, data = random.Random(3), encode_model(make_model(kind))
    for _ in range(400):
        with pytest.raises(BadModel):
            decode_model(mutated(data, rng))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut out, repeat or swap some bytes; never the same as before."""
    made = bytearray(data)
    at, length = rng.randrange(len(data)), rng.choice([1, 1, 1, 8, 100])
    span = slice(at, at + length)
    kind = rng.randrange(4)
    if kind == 0:
        made[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        made[span] = rng.randbytes(len(made[span]))
    elif kind == 2:
        del made[span]
    else:
        made[at:at] = made[span]
    return bytes(made) if bytes(made) != data else mutated(data, rng)


RECORD_CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no plan": lambda content: content.pop("plan"),
    "another plan": lambda content: content["plan"].update(rank=5),
    "a plan of nothing": lambda content: content.update(plan=[]),
    "another catalog": lambda content: content.update(catalog_hash="0" * 64),
    "no note": lambda content: content.pop("note"),
    "a number for a note": lambda content: content.update(note=3),
    "strength of text": lambda content: content.update(strength="much"),
    "strength of nothing": lambda content: content.update(strength=None),
    "a kind of tomorrow": lambda content: content["scorer"].update(kind="pickle"),
    "a list for a kind": lambda content: content["scorer"].update(kind=["factors"]),
    "no settings": lambda content: content["scorer"].update(settings={}),
    "wrong settings": lambda content: content["scorer"]["settings"].update(feedback="stars"),
    "settings of text": lambda content: content["scorer"]["settings"].update(regularization="a"),
    "negative settings": lambda content: content["scorer"]["settings"].update(regularization=-1.0),
    "users of another kind": lambda content: content.update(users="integer Int64"),
    "users of no kind": lambda content: content.update(users=5),
    "a table of numbers": lambda content: content.update(validation=[1]),
    "no table": lambda content: content.update(validation=None),
}


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_a_wrong_record_with_a_right_checksum_is_refused(name: str, make_model: MakeModel) -> None:
    def change(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        RECORD_CHANGES[name](record["content"])

    with pytest.raises(BadModel):
        decode_model(rewritten(encode_model(make_model()), change))


ARRAY_CHANGES: dict[str, Callable[[dict[str, np.ndarray]], object]] = {
    "no factors": lambda arrays: arrays.pop("scorer.factors"),
    "an array too many": lambda arrays: arrays.update({"scorer.more": np.ones(2)}),
    "a stranger's array": lambda arrays: arrays.update(more=np.ones(2)),
    "fewer items": lambda arrays: arrays.update({"scorer.factors": arrays["scorer.factors"][:-1]}),
    "a line of factors": lambda arrays: arrays.update({"scorer.factors": arrays["scorer.factors"][:, 0]}),
    "NaN": lambda arrays: arrays["scorer.factors"].fill(np.nan),
    "no columns": lambda arrays: arrays.pop("history.columns"),
    "a column too far": lambda arrays: arrays["history.columns"].__setitem__(3, 30),
    "a column below": lambda arrays: arrays["history.columns"].__setitem__(3, -1),
    "columns out of order": lambda arrays: arrays["history.columns"].__setitem__(slice(0, 2), [5, 5]),
    "ends that fall": lambda arrays: arrays["history.ends"].__setitem__(3, 10**9),
    "ends below": lambda arrays: arrays["history.ends"].__setitem__(0, -1),
    "an end too few": lambda arrays: arrays.update({"history.ends": arrays["history.ends"][:-1]}),
    "a value too few": lambda arrays: arrays.update({"history.values": arrays["history.values"][:-1]}),
    "negative counts": lambda arrays: arrays["history.values"].fill(-1),
    "values of integers": lambda arrays: arrays.update({"history.values": arrays["history.columns"]}),
    "a user twice": lambda arrays: arrays["users.words"].fill(0),
    "an item renamed": lambda arrays: arrays["items.words"].__setitem__(0, 0x2D6D6574692D6D65),
}


@pytest.mark.parametrize("name", ARRAY_CHANGES)
def test_wrong_arrays_with_a_right_checksum_are_refused(name: str, make_model: MakeModel) -> None:
    def change(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        ARRAY_CHANGES[name](arrays)

    with pytest.raises(BadModel):
        decode_model(rewritten(encode_model(make_model()), change))


def test_a_stack_in_a_stack_is_refused(make_model: MakeModel) -> None:
    inner = make_model("stack").scorer
    nested = StackScorer(inner.arrays()["use"], inner=inner, weights=(1.0, 1.0))
    with pytest.raises(BadModel):
        decode_model(encode_model(make_model("stack", scorer=nested)))


def test_arrays_mutated_at_random_and_sealed_give_our_error_or_a_model(kind: str, make_model: MakeModel) -> None:
    rng, data = np.random.default_rng(4), encode_model(make_model(kind))
    refused = 0
    for _ in range(150):

        def change(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
            name = sorted(arrays)[rng.integers(len(arrays))]
            flat = arrays[name].reshape(-1).view(np.uint8)
            flat[rng.integers(flat.size, size=3)] = rng.integers(256, size=3)

        try:
            model = decode_model(rewritten(data, change))
        except BadModel:
            refused += 1
        else:
            assert len(model.catalog) == 30
    assert refused > 0


@pytest.mark.parametrize("name", ["means", "left", "right"])
@pytest.mark.parametrize("shape", [(1, -1), (-1, 1)])
def test_vectors_of_another_shape_are_refused(name: str, shape: tuple[int, int], make_model: MakeModel) -> None:
    """Found by `studies hostile`: such weights were read, and `recommend` raised IndexError or ValueError."""

    def change(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        n_items = arrays["scorer.means"].size
        arrays.pop("scorer.weights", None)
        arrays.update({f"scorer.{one}": np.ones(n_items, np.float32) for one in ("means", "left", "right")})
        arrays["scorer.basis"] = np.ones((2, n_items), np.float32)
        arrays[f"scorer.{name}"] = arrays[f"scorer.{name}"].reshape(shape)

    with refused(BadModel):
        decode_model(rewritten(encode_model(make_model("item-item")), change))


def test_what_a_file_holds_is_repeated_in_few_words(make_model: MakeModel) -> None:
    """Found by `studies hostile`: an error held a list of three thousand numbers."""

    def change(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        record["content"]["scorer"]["settings"].update(feedback=[0] * 3_000)

    with pytest.raises(BadModel) as error:
        decode_model(rewritten(encode_model(make_model("item-item")), change))
    assert len(str(error.value)) < 1_000


def test_a_chosen_candidate_without_a_kind_has_the_scorers(make_model: MakeModel) -> None:
    """Found by `studies hostile`: `summary` raised KeyError."""
    table = [{"taken": True, "strength": 0.5, "loss": 0.5, "error": 0.1}]
    data = rewritten(
        encode_model(make_model("item-item")), lambda record, _: record["content"].update(validation=table)
    )
    assert decode_model(data).summary()


@pytest.mark.parametrize(
    "validation",
    [
        5,
        None,
        {"loss": 1},
        [5],
        [{"loss": [1]}],
        [{"loss": "many"}],
        [{"strength": {"a": 1}}],
        [{"kind": [], "taken": True}],
        [{"error": None, "loss": 1.0}],
        [{"\x1b[2J": 1}],
        [{"kind": "\x1b[2J"}],
        [{"loss": 1.0}] * 2_000,
    ],
)
def test_a_hostile_validation_is_refused(validation: Any, make_model: MakeModel) -> None:
    """Audit L1: it was read, and `summary` raised TypeError."""
    data = rewritten(encode_model(make_model()), lambda record, _: record["content"].update(validation=validation))
    with refused(BadModel):
        decode_model(data)


def test_texts_that_a_terminal_would_act_on_are_refused(make_model: MakeModel) -> None:
    for name in ("entity", "note"):
        data = rewritten(
            encode_model(make_model()), lambda record, _, name=name: record["content"].update({name: "\x1b[2J"})
        )
        with refused(BadModel):
            decode_model(data)


def test_one_wide_row_does_not_make_a_huge_table(make_model: MakeModel) -> None:
    """Scores need a table of rank by rank: 100,000 factors of few items would take 80 GB."""

    def widen(_: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays["scorer.factors"] = np.ones((len(arrays["scorer.factors"]), 100_000), np.float32)

    with refused(BadModel, None, expected="a rank of at most"):
        decode_model(rewritten(encode_model(make_model("factors")), widen))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    """Audit L1: `Model.load` of a FIFO hung."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/stdin")):
        with refused(TransportError, None, found="plain file"):
            Model.load(path)

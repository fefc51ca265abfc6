"""The numba side of `_lanes`: a value type of eight floats and the operations on it, as LLVM vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from twofold.algorithms._lanes import LANES


class Lanes(types.Type):
    """Eight numbers of one floating type."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


def _vector(dtype: types.Float) -> Any:
    return ir.VectorType(ir.FloatType() if dtype == types.float32 else ir.DoubleType(), LANES)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A vector register."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, _vector(lanes.dtype))  # type: ignore[no-untyped-call]


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _vector(array_type.dtype).as_pointer())


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """Read eight neighbours of a flat array, the first at `index`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), generate


@intrinsic
def store(_: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """Write eight neighbours of a flat array, the first at `index`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], address, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def fill(_: Any, number: Any) -> Any:
    """Eight times the same number."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = _vector(signature.args[0])
        undefined = ir.Constant(kind, ir.Undefined)
        first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        single = builder.insert_element(undefined, arguments[0], ir.IntType(32)(0))
        return builder.shuffle_vector(single, undefined, first)

    return Lanes(number)(number), generate


@intrinsic
def total(_: Any, lanes: Any) -> Any:
    """Sum of the eight numbers, by halves."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        vector = arguments[0]
        undefined = ir.Constant(vector.type, ir.Undefined)
        half = LANES // 2
        while half:
            order = [i + half if i < half else i for i in range(LANES)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
            vector = builder.fadd(vector, builder.shuffle_vector(vector, undefined, mask))
            half //= 2
        return builder.extract_element(vector, ir.IntType(32)(0))

    return lanes.dtype(lanes), generate


def _llvm(builder: Any, name: str, *operands: Any) -> Any:
    """Call LLVM's intrinsic of that name for our vector type."""
    kind = operands[0].type
    suffix = "f32" if kind.element == ir.FloatType() else "f64"
    signature = ir.FunctionType(kind, [kind] * len(operands))
    name = f"llvm.{name}.v{LANES}{suffix}"
    function = cgutils.get_or_insert_function(builder.module, signature, name)  # type: ignore[no-untyped-call]
    return builder.call(function, operands)


def _negate(builder: Any, a: Any) -> Any:
    return builder.fsub(ir.Constant(a.type, [-0.0] * LANES), a)


def _where_positive(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, [0.0] * LANES)), b, c)


def _generator(emit: Callable[..., Any]) -> Callable[..., Any]:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return emit(builder, *arguments)

    return generate


def _unary(emit: Callable[..., Any]) -> Any:
    def operation(_: Any, a: Any) -> Any:
        return a(a), _generator(emit)

    return intrinsic(operation)


def _binary(emit: Callable[..., Any]) -> Any:
    def operation(_: Any, a: Any, b: Any) -> Any:
        return a(a, b), _generator(emit)

    return intrinsic(operation)


def _ternary(emit: Callable[..., Any]) -> Any:
    def operation(_: Any, a: Any, b: Any, c: Any) -> Any:
        return a(a, b, c), _generator(emit)

    return intrinsic(operation)


add = _binary(lambda builder, a, b: builder.fadd(a, b))
subtract = _binary(lambda builder, a, b: builder.fsub(a, b))
multiply = _binary(lambda builder, a, b: builder.fmul(a, b))
divide = _binary(lambda builder, a, b: builder.fdiv(a, b))
root = _unary(lambda builder, a: _llvm(builder, "sqrt", a))
multiply_add = _ternary(lambda builder, a, b, c: _llvm(builder, "fmuladd", a, b, c))
subtract_product = _ternary(lambda builder, a, b, c: _llvm(builder, "fmuladd", _negate(builder, b), c, a))
where_positive = _ternary(_where_positive)

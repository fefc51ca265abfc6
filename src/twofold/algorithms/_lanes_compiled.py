"""The numba side of `_lanes`: a value type of eight floats and the operations on it, as LLVM vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from twofold.algorithms._lanes import LANES


class Lanes(types.Type):
    """Eight numbers of one floating type."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


def _vector(dtype: types.Float) -> ir.VectorType:
    return ir.VectorType(ir.FloatType() if dtype == types.float32 else ir.DoubleType(), LANES)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A vector register."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, _vector(lanes.dtype))


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    start = builder.gep(data, [index])
    return builder.bitcast(start, _vector(array_type.dtype).as_pointer())


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """Read eight neighbours of a flat array, the first at `index`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), generate


@intrinsic
def store(_: Any, array: Any, index: Any, value: Any) -> Any:
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
        single = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[0], ir.IntType(32)(0))
        return builder.shuffle_vector(
            single, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        )

    return Lanes(number)(number), generate


def _elementwise(emit: Callable[[Any, Any], Any], n_arguments: int, name: str) -> Any:
    """An intrinsic of lanes alone; `emit` gets the builder and the operands."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return emit(builder, arguments)

    if n_arguments == 1:
        def typed(_: Any, a: Any) -> Any:
            return a(a), generate
    elif n_arguments == 2:
        def typed(_: Any, a: Any, b: Any) -> Any:  # type: ignore[misc]
            return a(a, a), generate
    else:
        def typed(_: Any, a: Any, b: Any, c: Any) -> Any:  # type: ignore[misc]
            return a(a, a, a), generate
    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


def _llvm(builder: Any, name: str, *operands: Any) -> Any:
    """Call LLVM's intrinsic of that name for our vector type."""
    kind = operands[0].type
    suffix = "f32" if kind.element == ir.FloatType() else "f64"
    signature = ir.FunctionType(kind, [kind] * len(operands))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{LANES}{suffix}")
    return builder.call(function, operands)


def _negate(builder: Any, a: Any) -> Any:
    return builder.fsub(ir.Constant(a.type, [-0.0] * LANES), a)


def _where_positive(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, [0.0] * LANES)), b, c)


add = _elementwise(lambda builder, x: builder.fadd(*x), 2, "add")
subtract = _elementwise(lambda builder, x: builder.fsub(*x), 2, "subtract")
multiply = _elementwise(lambda builder, x: builder.fmul(*x), 2, "multiply")
divide = _elementwise(lambda builder, x: builder.fdiv(*x), 2, "divide")
multiply_add = _elementwise(lambda builder, x: _llvm(builder, "fmuladd", *x), 3, "multiply_add")
subtract_product = _elementwise(
    lambda builder, x: _llvm(builder, "fmuladd", _negate(builder, x[1]), x[2], x[0]), 3, "subtract_product"
)
root = _elementwise(lambda builder, x: _llvm(builder, "sqrt", *x), 1, "root")
where_positive = _elementwise(lambda builder, x: _where_positive(builder, *x), 3, "where_positive")

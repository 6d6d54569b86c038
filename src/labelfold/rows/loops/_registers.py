"""Steps of a loop over the non-zeros of a sparse row, in vectors: products of a row with others, and their sum.

Both are for compiled code, and for a number of columns that is a constant there: the row that stays, or the sum, is
then held in registers from the first non-zero to the last, which no compiler makes of loops by itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# The widest vectors there are; narrower machines take each of them in parts.
_VECTOR_BYTES = 64
# Sums may be added in any order.
_FLAGS = ("contract", "reassoc", "nsz")


@intrinsic(prefer_literal=True)
def row_products(typing_context, q, h, M, indices, first, m, k):
    """Set q[j] to the product of h with row indices[first + j] of M, for j below m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not h.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        rows = _Rows(context, builder, signature.args, arguments)
        held = [builder.load(p, align=rows.item) for p in rows.vectors(rows.start(1))]
        products = rows.start(0)
        with cgutils.for_range(builder, rows.count) as loop:
            parts = [
                builder.fmul(a, builder.load(p, align=rows.item), flags=_FLAGS)
                for a, p in zip(held, rows.vectors(rows.row(loop.index)), strict=True)
            ]
            total = rows.number(0.0)
            for part in _in_pairs(builder, parts):
                total = builder.fadd(total, rows.across(part), flags=_FLAGS)
            builder.store(total, builder.gep(products, [loop.index]))
        return context.get_dummy_value()

    return types.void(q, h, M, indices, types.intp, types.intp, k), generate


@intrinsic(prefer_literal=True)
def add_rows(typing_context, q, out, M, indices, first, m, k):
    """Add q[j] times row indices[first + j] of M to ``out``, for j below m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not out.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        rows = _Rows(context, builder, signature.args, arguments)
        targets = rows.vectors(rows.start(1))
        sums = [cgutils.alloca_once(builder, p.type.pointee) for p in targets]
        for place, p in zip(sums, targets, strict=True):
            builder.store(builder.load(p, align=rows.item), place)
        factors = rows.start(0)
        with cgutils.for_range(builder, rows.count) as loop:
            value = builder.load(builder.gep(factors, [loop.index]))
            for place, p in zip(sums, rows.vectors(rows.row(loop.index)), strict=True):
                part = builder.load(p, align=rows.item)
                product = builder.fmul(rows.spread(value, part.type), part, flags=_FLAGS)
                builder.store(builder.fadd(builder.load(place), product, flags=_FLAGS), place)
        for place, p in zip(sums, targets, strict=True):
            builder.store(builder.load(place), p, align=rows.item)
        return context.get_dummy_value()

    return types.void(q, out, M, indices, types.intp, types.intp, k), generate


class _Rows:
    """The arguments (a, b, M, indices, first, m, k) of an intrinsic, as pointers and vectors."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        self.context, self.builder, self.kinds, self.values = context, builder, kinds, values
        self.width, self.item = kinds[-1].literal_value, kinds[2].dtype.bitwidth // 8
        self.number, self.count = context.get_data_type(kinds[2].dtype), values[5]
        self.position = ir.IntType(64)
        self.matrix, self.columns = self.start(2), self.start(3)

    def start(self, which: int) -> Any:
        """Return where an array begins."""
        return self.context.make_array(self.kinds[which])(self.context, self.builder, self.values[which]).data

    def row(self, j: Any) -> Any:
        """Return where the row of the j-th non-zero begins."""
        column = self.builder.load(self.builder.gep(self.columns, [self.builder.add(self.values[4], j)]))
        column = self.context.cast(self.builder, column, self.kinds[3].dtype, types.intp)
        return self.builder.gep(self.matrix, [self.builder.mul(column, self.position(self.width))])

    def vectors(self, start: Any) -> list[Any]:
        """Return where the vectors of a row begin."""
        lanes = _VECTOR_BYTES // self.item
        return [
            self.builder.bitcast(
                self.builder.gep(start, [self.position(first)]),
                ir.VectorType(self.number, min(lanes, self.width - first)).as_pointer(),
            )
            for first in range(0, self.width, lanes)
        ]

    def spread(self, value: Any, kind: Any) -> Any:
        """Return a vector that is a value everywhere."""
        undefined = kind(ir.Undefined)
        alone = self.builder.insert_element(undefined, value, ir.IntType(32)(0))
        zeros = ir.VectorType(ir.IntType(32), kind.count)([0] * kind.count)
        return self.builder.shuffle_vector(alone, undefined, zeros)

    def across(self, vector: Any) -> Any:
        """Return the sum of a vector's entries."""
        builder = self.builder
        while vector.type.count > 1 and vector.type.count % 2 == 0:
            half = vector.type.count // 2
            undefined = vector.type(ir.Undefined)
            low, high = (
                builder.shuffle_vector(
                    vector, undefined, ir.VectorType(ir.IntType(32), half)(list(range(at, at + half)))
                )
                for at in (0, half)
            )
            vector = builder.fadd(low, high, flags=_FLAGS)
        entries = [builder.extract_element(vector, ir.IntType(32)(i)) for i in range(vector.type.count)]
        total = entries[0]
        for entry in entries[1:]:
            total = builder.fadd(total, entry, flags=_FLAGS)
        return total


def _in_pairs(builder: Any, parts: list[Any]) -> list[Any]:
    """Return one sum of the vectors of each length, added in pairs."""
    found = []
    for count in dict.fromkeys(part.type.count for part in parts):
        alike = [part for part in parts if part.type.count == count]
        while len(alike) > 1:
            alike = [
                builder.fadd(*alike[i : i + 2], flags=_FLAGS) if i + 1 < len(alike) else alike[i]
                for i in range(0, len(alike), 2)
            ]
        found.append(alike[0])
    return found

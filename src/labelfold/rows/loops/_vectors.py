"""Vector instructions for the k columns of a row, written as LLVM code. No other file contains LLVM code.

They are used in compiled loops in which k is a constant. Without them a compiler does not keep the current row, or
the sum, in registers from the first non-zero to the last. It also checks at every stored value whether arrays
overlap, which takes longer than the step. Each step has a plain twin with the same result. If the vector steps cannot
be compiled, `run` uses the plain ones.

Pointers are opaque: each load and store states the type of the value.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from labelfold._compiled import FAST, compiled

# Width of the widest vectors; the compiler splits them on narrower machines.
VECTOR_BYTES = 64
# Sums may be added in any order.
_FLAGS = ("contract", "reassoc", "nsz")
_LOG = logging.getLogger("labelfold")
_compile = compiled(FAST)
_usable = True


def run(make: Callable[[int], Any], special: int, *arguments: Any) -> Any:
    """Call ``make(special)``, a loop compiled for ``special`` columns, or the plain loop if it cannot be compiled.

    Parameters
    ----------
    make : callable
        Returns the loop compiled for a number of columns; for 0 the plain loop for any number.
    special : int
        The number of columns, or 0.
    *arguments
        Arguments of the loop.
    """
    global _usable
    if not special or not _usable:
        return make(0)(*arguments)
    loop = make(special)
    try:
        return loop(*arguments)
    except Exception as problem:
        if loop.overloads:  # it was compiled, so the error comes from the loop
            raise
        _usable = False
        _LOG.warning("labelfold's fastest loops cannot be compiled (%s); plain ones are used.", problem)
        return make(0)(*arguments)


@intrinsic(prefer_literal=True)
def add_multiple(typing_context, out, i, value, M, j, k):
    """Add ``value`` times row j of M to row i of ``out``: C-ordered, of one dtype, with k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or out.dtype != M.dtype:
        return None

    def generate(context, builder, signature, arguments):
        to, _, _, of, _, _ = signature.args
        out, i, value, M, j, _ = arguments
        vectors = _Vectors(context, builder, to.dtype, k.literal_value)
        target, source = vectors.row(vectors.start(to, out), i), vectors.row(vectors.start(of, M), j)
        for (kind, a), (_, b) in zip(vectors.parts(target), vectors.parts(source), strict=True):
            product = builder.fmul(vectors.spread(value, kind), vectors.load(b, kind), flags=("contract",))
            vectors.store(builder.fadd(vectors.load(a, kind), product, flags=("contract",)), a)
        return context.get_dummy_value()

    return types.void(out, types.intp, out.dtype, M, types.intp, k), generate


@intrinsic(prefer_literal=True)
def fetch_row(typing_context, M, i, k):
    """Ask for row i of M, C-ordered with k columns, a constant, to be in the cache when it is needed soon."""
    if not isinstance(k, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, M.dtype, k.literal_value)
        row, number = vectors.row(vectors.start(M, arguments[0]), arguments[1]), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        for first in range(0, k.literal_value, VECTOR_BYTES // vectors.item):
            # To read, to be used again soon, data rather than code.
            place = vectors.at(row, ir.IntType(64)(first))
            builder.call(fetch, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(M, types.intp, k), generate


@intrinsic(prefer_literal=True)
def row_products(typing_context, q, h, M, indices, first, m, k):
    """Set q[j] to the product of h with row indices[first + j] of M, for j < m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not h.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, M.dtype, k.literal_value)
        products, row, matrix, columns = map(vectors.start, signature.args[:4], arguments[:4])
        held = [vectors.load(p, kind) for kind, p in vectors.parts(row)]
        with cgutils.for_range(builder, arguments[5]) as loop:
            column = vectors.entry(columns, indices.dtype, builder.add(arguments[4], loop.index))
            parts = [
                builder.fmul(a, vectors.load(p, kind), flags=_FLAGS)
                for a, (kind, p) in zip(held, vectors.parts(vectors.row(matrix, column)), strict=True)
            ]
            total = vectors.number(0.0)
            for part in _in_pairs(builder, parts):
                total = builder.fadd(total, vectors.across(part), flags=_FLAGS)
            builder.store(total, vectors.at(products, loop.index))
        return context.get_dummy_value()

    return types.void(q, h, M, indices, types.intp, types.intp, k), generate


@intrinsic(prefer_literal=True)
def add_rows(typing_context, q, out, M, indices, first, m, k):
    """Add q[j] times row indices[first + j] of M to ``out``, for j < m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not out.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, M.dtype, k.literal_value)
        factors, row, matrix, columns = map(vectors.start, signature.args[:4], arguments[:4])
        targets = vectors.parts(row)
        sums = [cgutils.alloca_once(builder, kind) for kind, _ in targets]
        for place, (kind, p) in zip(sums, targets, strict=True):
            builder.store(vectors.load(p, kind), place)
        with cgutils.for_range(builder, arguments[5]) as loop:
            column = vectors.entry(columns, indices.dtype, builder.add(arguments[4], loop.index))
            value = vectors.entry(factors, q.dtype, loop.index)
            for place, (kind, p) in zip(sums, vectors.parts(vectors.row(matrix, column)), strict=True):
                product = builder.fmul(vectors.spread(value, kind), vectors.load(p, kind), flags=_FLAGS)
                builder.store(builder.fadd(builder.load(place, typ=kind), product, flags=_FLAGS), place)
        for place, (kind, p) in zip(sums, targets, strict=True):
            vectors.store(builder.load(place, typ=kind), p)
        return context.get_dummy_value()

    return types.void(q, out, M, indices, types.intp, types.intp, k), generate


@_compile
def plain_products(q, h, M, indices, first, m):
    """Set q[j] to the product of h with row indices[first + j] of M, for j < m."""
    for j in range(m):
        w = M[indices[first + j]]
        p = w[0] * h[0]
        for t in range(1, h.size):
            p += w[t] * h[t]
        q[j] = p


@_compile
def add_plain_rows(q, out, M, indices, first, m):
    """Add q[j] times row indices[first + j] of M to ``out``, for j < m."""
    for j in range(m):
        w = M[indices[first + j]]
        for t in range(out.size):
            out[t] += q[j] * w[t]


class _Vectors:
    """Reads and writes rows of a matrix of some dtype and width, one vector at a time."""

    def __init__(self, context: Any, builder: Any, dtype: Any, width: int) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.number, self.item = context.get_data_type(dtype), dtype.bitwidth // 8

    def start(self, kind: Any, array: Any) -> Any:
        """Return the address of an array."""
        # The pointers of numba have types. llvmlite has no cast to an opaque pointer (it considers the two equal), so
        # the pointer is stored and loaded again; LLVM removes both instructions.
        place = cgutils.alloca_once(self.builder, ir.PointerType())
        self.builder.store(self.context.make_array(kind)(self.context, self.builder, array).data, place)
        return self.builder.load(place, typ=ir.PointerType())

    def at(self, start: Any, position: Any) -> Any:
        """Return the address of the number at a position."""
        return self.builder.gep(start, [position], source_etype=self.number)

    def row(self, start: Any, index: Any) -> Any:
        """Return the address of a row of a matrix."""
        return self.at(start, self.builder.mul(index, ir.IntType(64)(self.width)))

    def entry(self, start: Any, dtype: Any, position: Any) -> Any:
        """Return the entry of a vector of any dtype; integers are converted to positions."""
        kind = self.context.get_data_type(dtype)
        found = self.builder.load(self.builder.gep(start, [position], source_etype=kind), typ=kind)
        is_integer = isinstance(dtype, types.Integer)
        return self.context.cast(self.builder, found, dtype, types.intp) if is_integer else found

    def parts(self, row: Any) -> list[tuple[Any, Any]]:
        """Return the vectors of a row: the type and the address of each."""
        lanes = VECTOR_BYTES // self.item
        return [
            (ir.VectorType(self.number, min(lanes, self.width - first)), self.at(row, ir.IntType(64)(first)))
            for first in range(0, self.width, lanes)
        ]

    def load(self, place: Any, kind: Any) -> Any:
        """Return the vector at an address."""
        return self.builder.load(place, typ=kind, align=self.item)

    def store(self, vector: Any, place: Any) -> None:
        """Write a vector to an address."""
        self.builder.store(vector, place, align=self.item)

    def spread(self, value: Any, kind: Any) -> Any:
        """Return a vector with all entries equal to a value."""
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
    """Return one sum for the vectors of each length, added in pairs."""
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

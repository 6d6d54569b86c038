"""Vector instructions for the k columns of a row, written as LLVM code. No other file contains LLVM code.

They are used in compiled loops in which k is a constant. Without them a compiler does not keep the current row, or
the sum, in registers from the first non-zero to the last, and does not fetch rows before they are needed. Products
of sparse rows then take 2 to 2.7 times as long, a fit of DRSVM 2.1 times (``benchmarks/second_ways.py``). If
they cannot be compiled, `run` uses the plain loops of its callers.

Pointers are opaque: each load and store states the type of the value.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Width of the widest vectors; the compiler splits them on narrower machines.
VECTOR_BYTES = 64
# Prefetch distance: how many entries ahead a row is fetched into the cache.
_AHEAD = 16
# Sums may be added in any order.
_FLAGS = ("contract", "reassoc", "nsz")
_LOG = logging.getLogger("labelfold")
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
def row_products(
    typing_context: Any, q: Any, h: Any, M: Any, indices: Any, first: Any, m: Any, k: Any
) -> Any:
    """Set q[j] to the product of h with row indices[first + j] of M, for j < m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not h.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, M.dtype, k.literal_value)
        products, row, matrix, columns = map(vectors.start, signature.args[:4], arguments[:4])
        held = [vectors.load(p, kind) for kind, p in vectors.parts(row)]
        with vectors.each_row(matrix, columns, indices, arguments[3:6]) as (number, source):
            parts = [
                builder.fmul(a, vectors.load(p, kind), flags=_FLAGS)
                for a, (kind, p) in zip(held, vectors.parts(source), strict=True)
            ]
            total = vectors.number(0.0)
            for part in _in_pairs(builder, parts):
                total = builder.fadd(total, vectors.across(part), flags=_FLAGS)
            builder.store(total, vectors.at(products, number))
        return context.get_dummy_value()

    return types.void(q, h, M, indices, types.intp, types.intp, k), generate


@intrinsic(prefer_literal=True)
def add_rows(typing_context: Any, q: Any, out: Any, M: Any, indices: Any, first: Any, m: Any, k: Any) -> Any:
    """Set ``out`` to the sum of q[j] times row indices[first + j] of M, for j < m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not out.dtype == M.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, M.dtype, k.literal_value)
        factors, row, matrix, columns = map(vectors.start, signature.args[:4], arguments[:4])
        targets = vectors.parts(row, overlap=True)
        sums = [cgutils.alloca_once(builder, kind) for kind, _ in targets]
        for place, (kind, _) in zip(sums, targets, strict=True):
            builder.store(kind(None), place)
        vectors.fetch(row, to_write=True)
        with vectors.each_row(matrix, columns, indices, arguments[3:6]) as (number, source):
            value = vectors.entry(factors, q.dtype, number)
            for place, (kind, p) in zip(sums, vectors.parts(source, overlap=True), strict=True):
                product = builder.fmul(vectors.spread(value, kind), vectors.load(p, kind), flags=_FLAGS)
                builder.store(builder.fadd(builder.load(place, typ=kind), product, flags=_FLAGS), place)
        for place, (kind, p) in zip(sums, targets, strict=True):
            vectors.store(builder.load(place, typ=kind), p)
        return context.get_dummy_value()

    return types.void(q, out, M, indices, types.intp, types.intp, k), generate


@intrinsic(prefer_literal=True)
def add_to_rows(
    typing_context: Any, q: Any, h: Any, out: Any, indices: Any, first: Any, m: Any, k: Any
) -> Any:
    """Add q[j] times h to row indices[first + j] of ``out``, for j < m; k columns, a constant."""
    if not isinstance(k, types.IntegerLiteral) or not h.dtype == out.dtype == q.dtype:
        return None

    def generate(context, builder, signature, arguments):
        vectors = _Vectors(context, builder, out.dtype, k.literal_value)
        factors, row, matrix, columns = map(vectors.start, signature.args[:4], arguments[:4])
        held = [vectors.load(p, kind) for kind, p in vectors.parts(row, overlap=True)]
        # Callers go from row to row, and the row after the next is not in the cache yet.
        vectors.fetch(vectors.at(row, ir.IntType(64)(2 * vectors.width)))
        with vectors.each_row(matrix, columns, indices, arguments[3:6]) as (number, target):
            value = vectors.entry(factors, q.dtype, number)
            sums = []  # all are read before the first is written, since they overlap
            for a, (kind, p) in zip(held, vectors.parts(target, overlap=True), strict=True):
                product = builder.fmul(vectors.spread(value, kind), a, flags=_FLAGS)
                sums.append((builder.fadd(vectors.load(p, kind), product, flags=_FLAGS), p))
            for part, p in sums:
                vectors.store(part, p)
        return context.get_dummy_value()

    return types.void(q, h, out, indices, types.intp, types.intp, k), generate


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

    @contextmanager
    def each_row(self, matrix: Any, columns: Any, kind: Any, given: Any) -> Iterator[tuple[Any, Any]]:
        """Make a loop over some entries of an array of row indices: yield their number and the address of the row.

        ``given`` is the array, of type ``kind``, its first entry and their number. Rows are fetched into the cache
        before they are needed.
        """
        array, first, number = given
        builder, size = self.builder, self.context.make_array(kind)(self.context, self.builder, array).nitems
        with cgutils.for_range(builder, number) as loop:
            now = builder.add(first, loop.index)
            later = builder.add(now, ir.IntType(64)(_AHEAD))
            later = builder.select(builder.icmp_signed("<", later, size), later, now)
            self.fetch(self.row(matrix, self.entry(columns, kind.dtype, later)))
            yield loop.index, self.row(matrix, self.entry(columns, kind.dtype, now))

    def fetch(self, row: Any, *, to_write: bool = False) -> None:
        """Ask for a row to be in the cache when it is needed, unless it is narrow: asking would take as long."""
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
        fetch = self.builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        for _, place in self.parts(row) if self.width * self.item >= VECTOR_BYTES else ():
            # To be used again soon, data rather than code.
            self.builder.call(fetch, [place, number(int(to_write)), number(3), number(1)])

    def parts(self, row: Any, *, overlap: bool = False) -> list[tuple[Any, Any]]:
        """Return the vectors of a row: the type and the address of each.

        With ``overlap`` the last may begin within the one before, so that all have a length that registers have.
        """
        found, first = [], 0
        while first < self.width:
            left = self.width - first
            lanes = min(left, VECTOR_BYTES // self.item)
            power = 1 << (lanes - 1).bit_length()
            if overlap and power > lanes:
                power = power if power <= self.width else power // 2
                lanes, first = power, min(first, self.width - power)
            found.append((ir.VectorType(self.number, lanes), self.at(row, ir.IntType(64)(first))))
            first += lanes
        return found

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

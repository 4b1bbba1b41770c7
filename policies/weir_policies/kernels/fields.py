"""Named fields in a row of numbers: the state of a compiled policy, declared once.

    class Memory(Fields):
        gamma: float
        window: int
        rates: Floats = array("window")

    memory = Memory.allocate(view, parameters, window=3)
    own = Memory(memory[o])          # in a kernel and in plain Python alike
    own.rates[0] = own.gamma

All memory of a policy is one array of 8-byte words, a row per operator, so that kernels of all
policies have one signature. A class of `Fields` says what the words of a row mean. Scalars and
arrays of a fixed shape stand in the row in the order of their declaration; of an array whose shape
is known when the memory is allocated there stands where it begins, behind all others. So the fields
of a class stand in the same place in its subclasses, and what is written for a class works on rows
of its subclasses: `Base(memory[o])`.

Numba compiles an access to an address and a load; a test compares it with plain Python.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array

from weir_policies.model.arrays import Counts, Floats

if TYPE_CHECKING:
    from weir_policies.kernels.view import Memory, View
    from weir_policies.parameters import PolicyParameters

WORD = 8
"""Bytes of a number."""
LARGE = 16 * 4096
"""Bytes from which on zeros have pages of their own."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What `array` declares."""

    sides: tuple[int | str, ...]


def array(*shape: int | str) -> Any:  # stands for the array that the field is
    """Declare an array field.

    Args:
        shape: Sizes; a name is that of an integer field of the class, which says the size of each
            operator's when memory is allocated and must not change later.
    """
    return _Shape(shape)


@dataclass(frozen=True, slots=True)
class _Field:
    """The place of a field in a row, and its type; plain Python reads and writes it here."""

    name: str
    offset: int
    """Words before it; of an array of variable size, before the word that says where it begins."""
    is_float: bool
    shape: tuple[int | str, ...] | None
    """`None` is a scalar."""

    @property
    def is_variable(self) -> bool:
        """Whether its size is known only when memory is allocated."""
        return self.shape is not None and any(isinstance(side, str) for side in self.shape)

    @property
    def words(self) -> int:
        """Words that it takes of the fixed part of a row."""
        fixed = [side for side in self.shape or () if isinstance(side, int)]
        return 1 if self.is_variable else math.prod(fixed)

    @property
    def numba_number(self) -> types.Type:
        return types.float64 if self.is_float else types.int64

    @property
    def numba_type(self) -> types.Type:
        number = self.numba_number
        return number if self.shape is None else types.Array(number, len(self.shape), "C")

    def __get__(self, fields: Fields, _owner: type[Fields]) -> Any:
        row = fields.words
        if self.shape is None:
            return (row.view(np.float64) if self.is_float else row)[self.offset]
        shape = tuple(
            side if isinstance(side, int) else int(getattr(fields, side)) for side in self.shape
        )
        begin = int(row[self.offset]) if self.is_variable else self.offset
        words = row[begin : begin + math.prod(shape)].reshape(shape)
        return words.view(np.float64) if self.is_float else words

    def __set__(self, fields: Fields, value: Any) -> None:
        if self.shape is None:
            row = fields.words
            (row.view(np.float64) if self.is_float else row)[self.offset] = value
        else:
            self.__get__(fields, type(fields))[...] = value


class Fields:
    """A row of a policy's memory; subclasses declare fields, `float`, `int` or an `array`."""

    fields: ClassVar[dict[str, _Field]] = {}
    header: ClassVar[int] = 0
    """Words of the fixed part of a row."""

    def __init__(self, row: Counts) -> None:
        """Take a row, `(w,)`, whose fields are read and written in place."""
        self.words = row

    def __init_subclass__(cls) -> None:
        """Append the fields to those of the base, and register the class with Numba."""
        super().__init_subclass__()
        cls.fields = dict(cls.fields)
        hints = get_type_hints(cls)
        for name in inspect.get_annotations(cls):
            if hasattr(Fields, name) or name in ("words", *cls.fields):
                raise TypeError(f"Expected a name of its own for a field of {cls}, got {name!r}")
            declared = cls.__dict__.get(name)
            shape = declared.sides if isinstance(declared, _Shape) else None
            field = _Field(name, cls.header, hints[name] in (float, Floats), shape)
            cls.fields[name] = field
            cls.header += field.words
            setattr(cls, name, field)
        cls.numba_type = _Row(cls)
        type_callable(cls)(lambda context: lambda row: cls.numba_type)
        lower_builtin(cls, types.Array)(_begin_of_row)

    numba_type: ClassVar[_Row]

    def __setattr__(self, name: str, value: Any) -> None:
        """Write a field; refuse what is none."""
        if name != "words" and name not in self.fields:
            raise AttributeError(f"Expected a field out of {list(self.fields)}, got {name!r}")
        super().__setattr__(name, value)

    @cached_property
    def address(self) -> int:
        """Where the row begins; for Numba."""
        return int(self.words.ctypes.data)

    @classmethod
    def allocate(
        cls,
        view: View,
        parameters: PolicyParameters | None = None,
        /,
        **values: Any,  # numbers, or arrays of them
    ) -> Memory:
        """Return memory for all operators of a view, all zero but for the given fields.

        Args:
            view: The operators.
            parameters: Settings, each of which becomes the scalar field of its name, if any.
            values: Scalar fields by name, the sizes of arrays among them; one value for all
                operators, or one for each, `(o,)`. They go before settings.
        """
        settings = [each.name for each in fields(parameters)] if parameters is not None else []
        named = {
            name: getattr(parameters, name)
            for name in settings
            if name in cls.fields and name not in values
        }
        whole = {name: int(each) for name, each in named.items() if not cls.fields[name].is_float}
        return cls.allocate_rows(view.counts.shape[0], named | whole | values)

    @classmethod
    def allocate_rows(cls, rows: int, values: Mapping[str, Any]) -> Memory:
        """Do the same for a number of operators."""
        scalars = {name: np.broadcast_to(value, rows) for name, value in values.items()}
        variable = [field for field in cls.fields.values() if field.is_variable]
        begins = np.zeros((rows, len(variable) + 1), dtype=np.int64)
        begins[:, 0] = cls.header
        for place, field in enumerate(variable):
            sides = [scalars[side] if isinstance(side, str) else side for side in field.shape or ()]
            begins[:, place + 1] = begins[:, place] + math.prod(sides)
        memory = allocate_zeros((rows, max(int(begins[:, -1].max()), 1)), np.dtype(np.int64))
        for o, row in enumerate(memory):
            own = cls(row)
            for place, field in enumerate(variable):
                row[field.offset] = begins[o, place]
            for name, each in scalars.items():
                setattr(own, name, each[o])
        return memory


def allocate_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return zeros of which only pages that were written take memory.

    Most pages of a large memory are never written. NumPy's zeros may come from a heap that the C
    library clears by writing it.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.zeros(shape, dtype=dtype)
    pages = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)


class _Row(types.Type):
    """Numba's type of an instance of `Fields`: the address of the row."""

    def __init__(self, kind: type[Fields]) -> None:
        self.kind = kind
        layout = [(each.name, each.is_float, each.shape) for each in kind.fields.values()]
        super().__init__(f"{kind.__module__}.{kind.__qualname__}{layout}")


register_model(_Row)(models.OpaqueModel)


@infer_getattr
class _FieldOfRow(AttributeTemplate):
    key = _Row

    def generic_resolve(  # type: ignore[override]  # declared as a constant there
        self, row: _Row, name: str
    ) -> types.Type | None:
        field = row.kind.fields.get(name)
        return None if field is None else field.numba_type


@typeof_impl.register(Fields)
def _type_of(fields: Fields, _context: object) -> _Row:
    return fields.numba_type


# What follows is written to Numba's interface for extensions, which has no static types.


def _begin_of_row(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    row = make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(row.data, context.get_value_type(types.voidptr))


def _address_of(context: Any, builder: Any, row: Any, kind: types.Type, word: Any) -> Any:
    """Return the address of a word of a row, as one of numbers of a kind."""
    number = context.get_value_type(kind).as_pointer()
    return cgutils.gep(builder, builder.bitcast(row, number), word)


def _read_field(context: Any, builder: Any, row_type: _Row, row: Any, name: str) -> Any:
    field = row_type.kind.fields[name]
    if field.shape is None:
        return builder.load(_address_of(context, builder, row, field.numba_type, field.offset))
    made = make_array(field.numba_type)(context, builder)
    begin: Any = field.offset
    if field.is_variable:
        begin = builder.load(_address_of(context, builder, row, types.int64, field.offset))
    shape = []
    for side in field.shape:
        if isinstance(side, int):
            shape.append(context.get_constant(types.intp, side))
        else:
            offset = row_type.kind.fields[side].offset
            shape.append(builder.load(_address_of(context, builder, row, types.int64, offset)))
    strides = [context.get_constant(types.intp, WORD)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    populate_array(
        made,
        data=_address_of(context, builder, row, field.numba_number, begin),
        shape=shape,
        strides=strides,
        itemsize=WORD,
        meminfo=None,
    )
    return made._getvalue()


def _write_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    row, value = arguments
    field = signature.args[0].kind.fields[name]
    builder.store(value, _address_of(context, builder, row, field.numba_type, field.offset))


def _unbox_row(_row: _Row, instance: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(instance, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


lower_getattr_generic(_Row)(_read_field)
lower_setattr_generic(_Row)(_write_field)
unbox(_Row)(_unbox_row)

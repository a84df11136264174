# SPDX-License-Identifier: AGPL-3.0-or-later
"""Caffe's messages (NetParameter, SolverParameter, SolverState …) without importing Caffe.

The classes are built at run time in a descriptor pool of their own, so they never clash with the ones that Caffe's
Python module registers in the default pool when it is loaded later. The format is read out of the installed Caffe's
`caffe_pb2.py` (a user's own Caffe may know more fields than 1.0), else from :mod:`azcaffe.network.schema`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from azcaffe.network.errors import ModelError
from azcaffe.network.schema import SCHEMA

TRAIN, TEST = 0, 1

_FieldProto = descriptor_pb2.FieldDescriptorProto
_FIELD = re.compile(r"(\w+):(\d+):([\w.]+)(\*\*?|!)?(?:=(.*))?$")


def make(name: str) -> Any:
    """A new, empty message, e.g. `make("NetParameter")`."""
    return _classes()[name]()


def parse_text(name: str, text: str, source: str) -> Any:
    """The message of type `name` that `text` (protobuf text format) spells.

    Raises:
        ModelError: it does not parse; the message names `source`, the line and the fault.
    """
    message = make(name)
    try:
        text_format.Parse(text, message, descriptor_pool=_pool())
    except (text_format.ParseError, UnicodeError, ValueError, RecursionError) as error:
        raise ModelError(f"{source}: not a valid {_KINDS.get(name, name)}: {_one_line(error)}") from None
    return message


def parse_binary(name: str, data: bytes, source: str) -> Any:
    """The message of type `name` in `data` (protobuf wire format).

    Raises:
        ModelError: it does not parse (truncated, or another kind of file).
    """
    message = make(name)
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeError, ValueError, RecursionError, RuntimeError) as error:
        raise ModelError(
            f"{source}: damaged or cut off, it does not parse as a {_KINDS.get(name, name)} ({_one_line(error)})"
        ) from None
    return message


def to_text(message: Message) -> str:
    """Protobuf text format, one field a line."""
    return text_format.MessageToString(message)


def to_bytes(message: Message) -> bytes:
    """Protobuf wire format.

    Raises:
        ModelError: the message is above the 2 GB that protobuf can write.
    """
    try:
        return message.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise ModelError(f"too large to write: {_one_line(error)}") from None


_KINDS = {
    "NetParameter": "net",
    "SolverParameter": "solver",
    "SolverState": "solverstate",
}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def bundled_file() -> descriptor_pb2.FileDescriptorProto:
    """The format as :mod:`azcaffe.network.schema` has it."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe", syntax="proto2")
    entries = re.findall(r"^(message|enum) ([\w.]+):((?:.*\n(?:    .*\n)*))", SCHEMA, re.M)
    enums = {name for kind, name, _ in entries if kind == "enum"}
    messages: dict[str, Any] = {}
    for kind, name, body in entries:
        parent, _, last = name.rpartition(".")
        holder = messages[parent] if parent else file
        if kind == "enum":
            enum = holder.enum_type.add(name=last)
            for value in body.split():
                label, number = value.split("=")
                enum.value.add(name=label, number=int(number))
        else:
            messages[name] = holder.message_type.add(name=last)
            for field in body.split():
                _add_field(messages[name], field, enums)
    return file


def _add_field(message: Any, text: str, enums: set[str]) -> None:
    match = _FIELD.match(text)
    assert match, text
    name, number, kind, label, default = match.groups()
    field = message.field.add(name=name, number=int(number))
    field.label = {None: field.LABEL_OPTIONAL, "!": field.LABEL_REQUIRED}.get(label, field.LABEL_REPEATED)
    if label == "**":
        field.options.packed = True
    if hasattr(_FieldProto, f"TYPE_{kind.upper()}"):
        field.type = getattr(_FieldProto, f"TYPE_{kind.upper()}")
    else:
        field.type = _FieldProto.TYPE_ENUM if kind in enums else _FieldProto.TYPE_MESSAGE
        field.type_name = f".caffe.{kind}"
    if default is not None:
        field.default_value = default


def installed_file() -> bytes | None:
    """The serialized format of the installed Caffe, read from its generated module without executing it."""
    spec = importlib.util.find_spec("caffe")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "proto" / "caffe_pb2.py"
        if path.is_file():
            literals = (node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant))
            return max((value for value in literals if isinstance(value, bytes)), key=len, default=None)
    return None


@cache
def is_stock() -> bool:
    """Whether the installed Caffe, if any, has the format of Caffe 1.0 and so no layers of its own."""
    data = installed_file()
    if data is None:
        return True
    installed = descriptor_pb2.FileDescriptorProto.FromString(data)
    return _layer_fields(installed) == _layer_fields(bundled_file())


def _layer_fields(file: descriptor_pb2.FileDescriptorProto) -> set[str]:
    return {field.name for message in file.message_type if message.name == "LayerParameter" for field in message.field}


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(installed_file() or bundled_file().SerializeToString())
    return pool


@cache
def _classes() -> dict[str, Any]:
    pool = _pool()
    names = ("NetParameter", "SolverParameter", "SolverState", "LayerParameter", "BlobProto")
    return {name: _message_class(pool, pool.FindMessageTypeByName(f"caffe.{name}")) for name in names}


def _message_class(pool: descriptor_pool.DescriptorPool, descriptor: Descriptor) -> Any:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(pool)  # protobuf before 4.22
    return factory.GetPrototype(descriptor)

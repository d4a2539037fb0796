"""Protobuf message classes whose fields are declared in Python: no generated code, and no package that provides a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto

Fields = Sequence[tuple[str, int, Any, bool, str | None]]  # name, number, type, repeated, name of the message in it


def message_classes(package: str, messages: Mapping[str, Fields]) -> dict[str, Any]:
    """Return the message classes by name. package: a unique name chosen by the caller."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3")
    for message, fields in messages.items():
        declared = file.message_type.add(name=message)
        for name, number, kind, repeated, of in fields:
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            type_name = f".{package}.{of}" if of else None
            declared.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}

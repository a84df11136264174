# SPDX-License-Identifier: AGPL-3.0-or-later
"""The file format: our table against Caffe's own description of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from azcaffe.network import ModelError, proto


def bare(file: descriptor_pb2.FileDescriptorProto) -> Any:
    """What matters of a description, in an order of its own."""
    messages: Any = {
        message.name: (
            {
                (f.name, f.number, f.type, f.type_name, f.label, f.default_value, f.options.packed)
                for f in message.field
            },
            {enum.name: {(v.name, v.number) for v in enum.value} for enum in message.enum_type},
        )
        for message in file.message_type
    }
    return messages, {enum.name: {(v.name, v.number) for v in enum.value} for enum in file.enum_type}


def test_the_table_is_the_format_of_the_installed_caffe() -> None:
    data = proto.installed_file()
    assert data is not None
    assert bare(proto.bundled_file()) == bare(descriptor_pb2.FileDescriptorProto.FromString(data))
    assert proto.is_stock()


def test_no_clash_with_caffes_own_classes_and_no_import_of_caffe() -> None:
    program = (
        "import sys, azcaffe.network as n; from azcaffe.network import proto; proto.make('NetParameter');"
        "assert 'caffe' not in sys.modules; import caffe; from caffe.proto import caffe_pb2;"
        "data = caffe_pb2.NetParameter(name='x').SerializeToString();"
        "print(proto.parse_binary('NetParameter', data, '').name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "x"), done.stderr


def test_text_errors_tell_the_line() -> None:
    with pytest.raises(ModelError, match=r"net\.prototxt: not a valid net: 2:\d+ .*fish"):
        proto.parse_text("NetParameter", 'name: "x"\nfish: 3\n', "net.prototxt")


def test_binary_round_trip() -> None:
    net = proto.make("NetParameter")
    net.layer.add(name="a", type="ReLU").blobs.add().data.extend([0.5, -1])
    assert proto.parse_binary("NetParameter", proto.to_bytes(net), "") == net

#!/usr/bin/env python3
"""Writes test/format/golden.gguf: a value of every kind, and for every type that is read a tensor of random blocks
beside what the Python package gguf makes of it (NAME and NAME.f32)."""
import os
import sys

import gguf
import numpy

TYPES = ['F16', 'BF16', 'Q8_0', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q4_K', 'Q5_K', 'Q6_K']
HALVES = {'Q8_0': [0], 'Q4_0': [0], 'Q4_1': [0, 2], 'Q5_0': [0], 'Q5_1': [0, 2], 'Q4_K': [0, 2], 'Q5_K': [0, 2],
          'Q6_K': [208]}  # bytes of a block where f16 numbers lie


def blocks(rng, kind, count):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if kind.name in ('F16', 'BF16'):
        values = rng.standard_normal((count, 32)).astype(numpy.float32)
        if kind.name == 'F16':
            return values.astype(numpy.float16).view(numpy.uint8)
        return (values.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
    raw = rng.integers(0, 256, (count, size), dtype=numpy.uint8)
    for at in HALVES[kind.name]:  # any bytes would be NaN now and then
        raw[:, at:at + 2] = (rng.standard_normal((count, 1)) * 0.1).astype(numpy.float16).view(numpy.uint8)
    return raw


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden.gguf')
    rng = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, 'llama')
    writer.add_uint8('k.u8', 200)
    writer.add_int8('k.i8', -100)
    writer.add_uint16('k.u16', 60000)
    writer.add_int16('k.i16', -30000)
    writer.add_uint32('k.u32', 4000000000)
    writer.add_int32('k.i32', -2000000000)
    writer.add_uint64('k.u64', 2**63 - 1)
    writer.add_int64('k.i64', -2**63)
    writer.add_float32('k.f32', 0.1)
    writer.add_float64('k.f64', 0.1)
    writer.add_bool('k.bool', True)
    writer.add_string('k.string', 'Zürich')
    writer.add_array('k.numbers', [1, -2, 3])
    writer.add_array('k.texts', ['a', '', 'ßc'])
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        raw = blocks(rng, kind, 3)
        floats = gguf.quants.dequantize(raw, kind).astype(numpy.float32)
        writer.add_tensor(name, raw, raw_dtype=kind)
        writer.add_tensor(name + '.f32', floats)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return 0


sys.exit(main())

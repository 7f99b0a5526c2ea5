"""safetensors files as tests make and compare them: name -> (type, shape, bytes)."""
import json
import struct


def read(path):
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    header.pop('__metadata__', None)
    return {name: (t['dtype'], t['shape'], data[slice(*t['data_offsets'])]) for name, t in header.items()}


def write(path, tensors):
    header, data = {}, b''
    for name, (kind, shape, content) in tensors.items():
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)

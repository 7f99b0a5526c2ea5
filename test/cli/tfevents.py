"""TensorBoard's event files, read with nothing but the standard library: every checksum, scalars, texts, histograms. Held to
files and readings of the package tensorboard (test/golden/make_tensorboard.py)."""
import struct


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from('<QI', data, at)
        if crc != masked(data[at:at + 8]):
            raise ValueError(f'checksum of the length at byte {at}')
        body = data[at + 12:at + 12 + length]
        if len(body) != length or struct.unpack_from('<I', data, at + 12 + length)[0] != masked(body):
            raise ValueError(f'checksum of the record at byte {at}')
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Pairs of number and value: an integer, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at:at + length], at + length
        yield key >> 3, value


def doubles(data):
    return [number for number, in struct.iter_unpack('<d', data)]


def read(path):
    """Scalars as [tag, step, value, time], texts as [tag, step, list, time], histograms as [tag, step, min, max, num,
    buckets], their sums of squares as [tag, step, sum], and steps at which a session began."""
    with open(path, 'rb') as file:
        data = file.read()
    found = {'scalars': [], 'texts': [], 'histograms': [], 'squares': [], 'sessions': [], 'version': None, 'steps': []}
    for record in records(data):
        event = dict(fields(record))
        time, step = struct.unpack('<d', event[1])[0], event.get(2, 0)
        found['steps'].append(step)
        if 3 in event:
            found['version'] = event[3].decode()
        if 7 in event:
            found['sessions'].append(step)
        for _, value in fields(event.get(5, b'')):
            parts = dict(fields(value))
            tag = parts[1].decode()
            if 2 in parts:
                found['scalars'].append([tag, step, struct.unpack('<f', parts[2])[0], time])
            if 8 in parts:
                found['texts'].append([tag, step, [text.decode() for number, text in fields(parts[8]) if number == 8], time])
            if 5 in parts:
                histogram = dict(fields(parts[5]))
                found['squares'].append([tag, step, doubles(histogram[5])[0]])
                found['histograms'].append([tag, step, *(doubles(histogram[i])[0] for i in (1, 2, 3)), doubles(histogram[7])])
    return found

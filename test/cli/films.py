"""Films that tests write themselves, without an encoder: frames of uncompressed colours, which FFmpeg's libraries give back to the
byte. `mp4` is the container of .mp4 and .mov files (ISO 14496-12) with one track of raw RGB; `y4m` a stream of grey frames."""
import struct


def box(kind, *parts):
    data = b''.join(parts)
    return struct.pack('>I', 8 + len(data)) + kind + data


def full(kind, *parts):
    return box(kind, bytes(4), *parts)


def mp4(frames, width, height, fps):
    """frames: each of width * height * 3 bytes."""
    ticks, count, size = 600, len(frames), width * height * 3
    step = ticks // fps
    times = struct.pack('>IIII', 0, 0, ticks, count * step)
    matrix = struct.pack('>9I', 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    head = box(b'ftyp', b'qt  ', bytes(4), b'qt  ')
    data = box(b'mdat', *frames)
    entry = box(b'raw ', bytes(6), struct.pack('>H', 1), bytes(16), struct.pack('>HHII', width, height, 72 << 16, 72 << 16), bytes(4),
                struct.pack('>H', 1), bytes(32), struct.pack('>Hh', 24, -1))
    table = box(b'stbl', full(b'stsd', struct.pack('>I', 1), entry), full(b'stts', struct.pack('>III', 1, count, step)),
                full(b'stsc', struct.pack('>IIII', 1, 1, count, 1)), full(b'stsz', struct.pack('>II', size, count)),
                full(b'stco', struct.pack('>II', 1, len(head) + 8)))
    place = box(b'dinf', full(b'dref', struct.pack('>I', 1), box(b'url ', struct.pack('>I', 1))))
    media = box(b'mdia', full(b'mdhd', times, bytes(4)), full(b'hdlr', b'mhlrvide', bytes(13)),
                box(b'minf', box(b'vmhd', struct.pack('>I', 1), bytes(8)), place, table))
    track = box(b'trak', box(b'tkhd', struct.pack('>IIIIII', 3, 0, 0, 1, 0, count * step), bytes(16), matrix,
                             struct.pack('>II', width << 16, height << 16)), media)
    movie = full(b'mvhd', times, struct.pack('>IHH', 1 << 16, 1 << 8, 0), bytes(8), matrix, bytes(24), struct.pack('>I', 2))
    return head + data + box(b'moov', movie, track)


def y4m(frames, width, height, fps):
    """frames: each of width * height bytes, how bright; from 0 to 255 (full range)."""
    head = f'YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 Cmono XCOLORRANGE=FULL\n'.encode()
    return head + b''.join(b'FRAME\n' + frame for frame in frames)

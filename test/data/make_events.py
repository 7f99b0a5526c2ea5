#!/usr/bin/env python3
"""Golden files of source events, by numpy and h5py alone: vectors of raw events by the formula of VecKM, six orders by numpy.lexsort, and a file as
GestureRecognitionNew writes it.

    python3 test/data/make_events.py      # needs numpy, h5py and safetensors
"""
import os

import h5py
import numpy
from safetensors.numpy import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'events')
INTERVAL, RADIUS, DIM = 200.0, 8, 64
ORDERS = ('XYT', 'TYX', 'XTY', 'YTX', 'YXT', 'TXY')


def vectors(events, chosen, t, x, y):
    """The definition, event by event: no sums by pixel."""
    out = numpy.zeros((len(chosen), DIM), numpy.complex128)
    for row, q in enumerate(chosen):
        near = events[(abs(events[:, 0] - events[q, 0]) <= RADIUS) & (abs(events[:, 1] - events[q, 1]) <= RADIUS)]
        dx, dy = (near[:, 0] - events[q, 0]) / RADIUS, (near[:, 1] - events[q, 1]) / RADIUS
        dt = (near[:, 2] - events[q, 2]) / INTERVAL
        out[row] = numpy.exp(1j * (dt[:, None] * t + dx[:, None] * x + dy[:, None] * y)).mean(0)
    return numpy.concatenate([out.real, out.imag], 1).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(2)
    t, x, y = (random.normal(size=DIM) * 25 for _ in range(3))
    t, x, y = (v.astype(numpy.float32).astype(numpy.float64) for v in (t, x, y))
    events = numpy.stack([random.integers(3, 40, 80), random.integers(0, 30, 80), random.random(80) * 199, random.integers(0, 2, 80)], 1)
    chosen = numpy.sort(random.choice(80, 12, replace=False))
    places = random.integers(0, 4, (3, 29)).astype(numpy.float32)  # many equal ones
    axes = {'X': places[0], 'Y': places[1], 'T': places[2]}
    orders = numpy.stack([numpy.lexsort([axes[letter] for letter in reversed(order)]) for order in ORDERS])
    inverses = numpy.argsort(orders, 1)
    os.makedirs(HERE, exist_ok=True)
    save_file({'t': t.astype(numpy.float32), 'x': x.astype(numpy.float32), 'y': y.astype(numpy.float32), 'events': events,
               'chosen': chosen.astype(numpy.int64), 'vectors': vectors(events, chosen, t, x, y), 'places': places,
               'orders': orders.astype(numpy.int32), 'inverses': inverses.astype(numpy.int32)},
              os.path.join(HERE, 'expected.safetensors'))
    with h5py.File(os.path.join(HERE, 'small.h5'), 'w') as file:
        intervals = [2, 1, 3]
        file['labels'] = numpy.array([2, 1, 3])
        file['num_intervals'] = numpy.array(intervals)
        file['class_names'] = ['wave', 'clap', 'point']
        file['file_paths'] = ['a', 'b', 'c']
        file.attrs['accumulation_interval_ms'] = 200
        for sample, count in enumerate(intervals):
            for interval in range(count):
                n = [2, 0, 3][interval] if sample == 2 else 2 + interval
                group = file.create_group(f'sample_{sample:06d}/interval_{interval:03d}')
                group['real'] = (numpy.arange(n * DIM).reshape(n, DIM) + 1000 * sample + 100 * interval).astype(numpy.float32)
                group['imag'] = -group['real'][()]
                group['event_coords'] = (numpy.arange(n * 4).reshape(n, 4) + interval).astype(numpy.float32)
    bad_files()


def small(path, **changes):
    """One sample of one interval, of which something is changed: a value, or None to leave it out."""
    vector = numpy.ones((1, DIM), numpy.float32)
    interval = 'sample_000000/interval_000/'
    sets = {'labels': numpy.array([1]), 'num_intervals': numpy.array([1]), interval + 'real': vector,
            interval + 'imag': vector, interval + 'event_coords': numpy.ones((1, 4), numpy.float32)}
    sets.update({(interval + name if interval + name in sets else name): value for name, value in changes.items()})
    with h5py.File(path, 'w', libver='latest') as file:
        for name, value in sets.items():
            if value is not None:
                file[name] = value


def bad_files():
    folder = os.path.join(HERE, 'bad')
    os.makedirs(folder, exist_ok=True)
    nan = numpy.full((1, 4), numpy.nan, numpy.float32)
    cases = {
        'no_labels': {'labels': None}, 'label_0': {'labels': numpy.array([0])}, 'label_9': {'labels': numpy.array([9])},
        'labels_floats': {'labels': numpy.array([1.0])}, 'labels_square': {'labels': numpy.ones((1, 1), int)},
        'no_num_intervals': {'num_intervals': None}, 'more_intervals': {'num_intervals': numpy.array([2])},
        'fewer_counts': {'num_intervals': numpy.array([], int)}, 'below_0': {'num_intervals': numpy.array([-1])},
        'no_interval': {'num_intervals': numpy.array([0])}, 'no_real': {'real': None},
        'width': {'imag': numpy.ones((1, 63), numpy.float32)}, 'lengths': {'imag': numpy.ones((2, DIM), numpy.float32)},
        'coords_3': {'event_coords': numpy.ones((1, 3), numpy.float32)}, 'nan_time': {'event_coords': nan},
        'nan_vector': {'real': numpy.full((1, DIM), numpy.nan, numpy.float32)},
        'texts': {'real': numpy.full((1, DIM), b'x')}, 'names': {'class_names': numpy.array([1, 2])},
        'empty': {name: numpy.ones((0, 4 if name == 'event_coords' else DIM), numpy.float32)
                  for name in ('real', 'imag', 'event_coords')},
    }
    for name, changes in cases.items():
        small(os.path.join(folder, name + '.h5'), **changes)


main()

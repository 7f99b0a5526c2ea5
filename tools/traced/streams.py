"""Streams and events of a GPU that is not there: which stream runs is told to the tracer, since a block is used again on its own stream
only. Waiting is not: what record_stream holds back is taken to be free at once."""
import contextlib
import itertools

import torch


class Stream:
    """As much of torch.cuda.Stream as libraries ask for; 0 is the default one. PyTorch has 32 others, which it gives out by turns."""
    numbers = itertools.count()

    def __init__(self, *args, **kwargs):
        self.number = self.stream_id = self.cuda_stream = (1 + (n - 1) % 32 if (n := next(Stream.numbers)) else 0)
        self.device_index, self.priority, self.device = 0, 0, torch.device('cuda', 0)

    def query(self):
        return True

    def synchronize(self, *args):
        pass

    wait_stream = wait_event = record_event = synchronize


class Event:
    def __init__(self, *args, **kwargs):
        pass

    def query(self):
        return True

    def elapsed_time(self, other):
        return 0.0

    def record(self, *args):
        pass

    wait = synchronize = record


def streams(tracer):
    """torch.cuda's streams where there is no GPU; one that is there has its own, and they are not told apart. Made before torch.cuda
    pretends."""
    return contextlib.nullcontext() if torch.cuda.is_available() else pretended(tracer)


@contextlib.contextmanager
def pretended(tracer):
    Stream.numbers = itertools.count()
    default = Stream()
    running = [default]

    @contextlib.contextmanager
    def on(stream):
        running.append(stream or running[-1])
        tracer.stream = running[-1].number
        try:
            yield
        finally:
            running.pop()
            tracer.stream = running[-1].number

    def set_stream(stream):
        running[-1] = stream
        tracer.stream = stream.number

    nothing = lambda *a, **k: None
    changes = [(torch.cuda, name, value) for name, value in {
        'Stream': Stream, 'Event': Event, 'stream': on, 'set_stream': set_stream,
        'current_stream': lambda *a, **k: running[-1], 'default_stream': lambda *a, **k: default}.items()]
    changes.append((torch.Tensor, 'record_stream', nothing))
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in changes]
    for holder, name, value in changes:
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)

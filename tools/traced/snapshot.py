"""What torch.cuda.memory recorded on a GPU, as a trace.

    torch.cuda.memory._record_memory_history(max_entries=1000000)     # before the model is built
    ...                                                                # a few steps
    torch.cuda.memory._dump_snapshot("memory.pickle")

The pickle may hold nothing but plain lists, dicts, texts and numbers: a file that wants to run code is refused.
"""
import pickle

from .format import ALLOCATE, CATEGORIES, EMPTY_CACHE, FORMAT, FREE, PHASES


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError('it holds %s.%s, which a snapshot of torch.cuda.memory does not' % (module, name))


def user_frame(frames):
    """The innermost line of Python that is not a library's: 'train.py:42 forward'."""
    for frame in frames or []:
        name = frame.get('filename', '')
        if name.endswith('.py') and 'site-packages' not in name and '/lib/python' not in name:
            return '%s:%s %s' % (name.rsplit('/', 1)[-1], frame.get('line', 0), frame.get('name', ''))
    return ''


def call(frames):
    """The innermost function that says what is done: not the allocator's own."""
    for frame in frames or []:
        name = frame.get('name', '')
        if name and 'llocator' not in name and 'malloc' not in name and 'StorageImpl' not in name:
            return name.split('(')[0][:120]
    return 'recorded'


class Conversion:
    def __init__(self):
        self.events, self.names, self.numbers, self.streams = [], [], {}, {}
        self.live, self.made, self.before = {}, 0, []
        self.held, self.reserved = 0, [[0, 0]]  # bytes of segments; [event, bytes] wherever they have changed
        self.name('')

    def name(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.names)
            self.names.append(text)
        return self.numbers[text]

    def allocation(self, size, stream, frames):
        number = self.streams.setdefault(stream, len(self.streams))
        if number > 255:
            raise ValueError('more than 256 streams')
        return [ALLOCATE, size, CATEGORIES.index('other'), self.name(user_frame(frames)), self.name(call(frames)), number]

    def take(self, entry):
        action, address = entry['action'], entry.get('addr')
        self.held += {'segment_alloc': 1, 'segment_map': 1, 'segment_free': -1, 'segment_unmap': -1}.get(action, 0) * entry.get('size', 0)
        if action == 'segment_free' and self.events[-1:] != [[EMPTY_CACHE]]:  # all cached segments go at once
            self.events.append([EMPTY_CACHE])
        elif action in ('alloc', 'free_completed') and self.events[-1:] == [[EMPTY_CACHE]] and self.held < self.reserved[-1][1]:
            self.reserved.append([len(self.events) - 1, self.held])
        if action == 'alloc':
            self.live[address] = self.made
            self.made += 1
            if self.held != self.reserved[-1][1]:
                self.reserved.append([len(self.events), self.held])
            self.events.append(self.allocation(entry['size'], entry.get('stream', 0), entry.get('frames')))
        elif action == 'free_completed':
            if address in self.live:
                self.events.append([FREE, self.live.pop(address)])
            else:  # it was there before recording began
                self.before.append((self.allocation(entry['size'], entry.get('stream', 0), None), len(self.events)))
                self.events.append(None)


def in_order(conversion, there):
    """What was there at the beginning comes first, and ids count from it."""
    first = [event for event, _ in conversion.before] + there
    events, shift = list(first), len(first)
    places = {place: number for number, (_, place) in enumerate(conversion.before)}
    for place, event in enumerate(conversion.events):
        if event is None:
            events.append([FREE, places[place]])
        else:
            events.append([FREE, event[1] + shift] if event[0] == FREE else event)
    return events


def reserved_peak(entries, segments):
    """From what is reserved at the end back to the beginning, and the most on the way."""
    now = peak = sum(s['total_size'] for s in segments)
    for entry in reversed(entries):
        sign = {'segment_alloc': -1, 'segment_map': -1, 'segment_free': 1, 'segment_unmap': 1}.get(entry['action'], 0)
        now += sign * entry.get('size', 0)
        peak = max(peak, now)
    return peak


def places(entries):
    """Where each segment lies among all of them by address, in the order in which they were made."""
    addresses = [entry['addr'] for entry in entries if entry['action'] == 'segment_alloc']
    rank = {address: at for at, address in enumerate(sorted(set(addresses)))}
    return [rank[address] for address in addresses]


def document(path):
    with open(path, 'rb') as file:
        snapshot = Plain(file).load()
    devices = [i for i, trace in enumerate(snapshot['device_traces']) if trace]
    if len(devices) != 1:
        raise ValueError('%s: %d devices have recorded events; traces are of one (_record_memory_history comes first)' % (
            path, len(devices)))
    entries = snapshot['device_traces'][devices[0]]
    segments = [s for s in snapshot['segments'] if s.get('device', 0) == devices[0]]
    conversion = Conversion()
    for entry in entries:
        conversion.take(entry)
    there = [conversion.allocation(b.get('requested_size', b['size']), s.get('stream', 0), None)
             for s in segments for b in s['blocks']
             if b['state'] == 'active_allocated' and b.get('address') not in conversion.live]
    guesses = []
    if there or conversion.before:
        guesses.append('%d blocks were there before recording began, in an order that is not known' % (
            len(there) + len(conversion.before)))
    events = in_order(conversion, there)
    whole = {} if guesses else {'reserved': conversion.reserved[1:], 'segments': places(entries)}  # from the first allocation on
    return {'format': FORMAT, 'source': 'snapshot', 'batch': None, 'capability': None,
            'versions': {'torch': str(snapshot.get('torch_version', ''))}, 'guesses': guesses, 'unmodelled': [],
            'recorded_reserved_bytes': reserved_peak(entries, segments), **whole,
            'categories': CATEGORIES, 'phases': PHASES, 'names': conversion.names, 'events': events}

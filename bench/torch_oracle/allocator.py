"""PyTorch's caching allocator, for traces of tools/torch_trace.py; written apart from src/torch, which it is to judge."""
import bisect

UNIT, MIB = 512, 1 << 20
ALLOCATE, FREE, MARK, EMPTY_CACHE = range(4)  # kinds of events, tools/traced/format.py


class Block:
    """A part of a segment; `before` and `behind` are its neighbours there."""
    __slots__ = 'address', 'size', 'pool', 'before', 'behind', 'free'

    def __init__(self, address, size, pool, before=None, behind=None):
        self.address, self.size, self.pool, self.before, self.behind, self.free = address, size, pool, before, behind, False


class Addresses:
    """Where the driver puts segments (src/torch/addresses.h), in MiB: the newest chunk that has room, there the lowest hole."""
    SEGMENT, LOADED = 32, {'cublas workspace': 64, 'aten::_scaled_dot_product_cudnn_attention': 10}

    def __init__(self):
        self.chunks, self.segments = [], 0  # [begin, size, taken ranges as (begin, size)], as they came
        self.chunk((1 << 40) - 96, 96, [(0, 72)])
        self.chunk((1 << 40) - 512, 416, [(0, 414)])

    def chunk(self, begin, size, taken):
        self.chunks.append([begin, size, [(begin + at, length) for at, length in taken]])
        return self.chunks[-1]

    def first_kernel(self):
        bottom = min(chunk[0] for chunk in self.chunks)
        self.give((1 << 40) - 512)
        self.chunk(bottom - 6, 6, [(6, 0)])

    def made(self, size):
        whole, above = -(-size // self.SEGMENT) * self.SEGMENT, 1 << 40
        for begin, length, _ in sorted(self.chunks, reverse=True) + [[0, 0, None]]:
            if above - begin - length >= whole + self.SEGMENT:
                return self.chunk((above - whole) // self.SEGMENT * self.SEGMENT, whole, [])
            above = begin

    def take(self, size):
        for chunk in self.chunks[::-1]:
            at = chunk[0]
            for begin, length in sorted(chunk[2]) + [(chunk[0] + chunk[1], 0)]:
                if begin - at >= size:
                    chunk[2].append((at, size))
                    return at
                at = begin + length
        chunk = self.made(size)
        chunk[2].append((chunk[0], size))
        return chunk[0]

    def give(self, address):
        for chunk in self.chunks:
            if chunk[0] <= address < chunk[0] + chunk[1]:
                chunk[2] = [taken for taken in chunk[2] if taken[0] != address]
        self.chunks = [chunk for chunk in self.chunks if chunk[2]]

    def segment(self, size):
        if self.segments == 1:
            self.first_kernel()
        self.segments += 1
        return self.take(size)


class Allocator:
    def __init__(self, falling):
        self.pools = {}      # by stream and whether they are small: free blocks as (size, address, block)
        self.held = {}       # by number of the allocation: its block
        self.allocated = self.reserved = self.allocated_peak = self.reserved_peak = 0
        self.lowest = 1 << 60  # where new segments lie below older ones
        self.addresses = None if falling else Addresses()

    def segment(self, size, pool):
        whole = 2 * MIB if pool[1] else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        self.reserved += whole
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self.lowest -= whole + (1 << 32)
        return Block(self.addresses.segment(whole // MIB) * MIB if self.addresses else self.lowest, whole, pool)

    def give(self, block):
        block.free = True
        bisect.insort(self.pools[block.pool], (block.size, block.address, block))

    def take(self, block):
        pool = self.pools[block.pool]
        del pool[bisect.bisect_left(pool, (block.size, block.address))]

    def allocate(self, number, requested, stream=0):
        if requested == 0:
            return
        size = -(-requested // UNIT) * UNIT
        small = size <= MIB
        pool = self.pools.setdefault((stream, small), [])
        at = bisect.bisect_left(pool, (size, -1))
        block = pool.pop(at)[2] if at < len(pool) else self.segment(size, (stream, small))
        rest = block.size - size
        if rest >= UNIT if small else rest > MIB:
            cut = Block(block.address + size, rest, block.pool, block, block.behind)
            if cut.behind:
                cut.behind.before = cut
            block.behind, block.size = cut, size
            self.give(cut)
        block.free = False
        self.held[number] = block
        self.allocated += block.size
        self.allocated_peak = max(self.allocated_peak, self.allocated)

    def free(self, number):
        block = self.held.pop(number, None)
        if block is None:
            return
        self.allocated -= block.size
        for first, second in ((block, block.behind), (block.before, block)):
            other = second if first is block else first
            if other is None or not other.free:
                continue
            self.take(other)
            first.size += second.size
            first.behind = second.behind
            if second.behind:
                second.behind.before = first
            block = first
        self.give(block)

    def empty_cache(self):
        for pool in self.pools.values():
            whole = [entry for entry in pool if entry[2].before is None and entry[2].behind is None]
            for entry in whole:
                pool.remove(entry)
                self.reserved -= entry[0]
                if self.addresses:
                    self.addresses.give(entry[1] // MIB)


def peaks(events, names=None, falling=False):
    """(allocated, reserved) of a list of events, and the same for each phase that it marks: {phase: (allocated, reserved)}. `names`: of calls,
    by their number."""
    allocator, number, phases, phase = Allocator(falling), 0, {}, 0
    loads = {} if falling else {at: Addresses.LOADED[name] for at, name in enumerate(names or []) if name in Addresses.LOADED}
    for event in events:
        if event[0] == ALLOCATE:
            if event[4] in loads:
                allocator.addresses.take(loads.pop(event[4]))
            allocator.allocate(number, event[1], *event[5:])
            number += 1
            before = phases.get(phase, (0, 0))
            phases[phase] = max(before[0], allocator.allocated), max(before[1], allocator.reserved)
        elif event[0] == FREE:
            allocator.free(event[1])
        elif event[0] == MARK:
            phase = event[1]
        else:
            allocator.empty_cache()
    return (allocator.allocated_peak, allocator.reserved_peak), phases

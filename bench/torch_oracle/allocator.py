"""PyTorch's caching allocator, for traces of tools/torch_trace.py; written apart from src/torch, which it is to judge."""
import bisect

UNIT, MIB = 512, 1 << 20
ALLOCATE, FREE, MARK, EMPTY_CACHE = range(4)  # kinds of events, tools/traced/format.py


class Block:
    """A part of a segment; `before` and `behind` are its neighbours there."""
    __slots__ = 'address', 'size', 'pool', 'before', 'behind', 'free'

    def __init__(self, address, size, pool, before=None, behind=None):
        self.address, self.size, self.pool, self.before, self.behind, self.free = address, size, pool, before, behind, False


class Allocator:
    def __init__(self):
        self.pools = {}      # by stream and whether they are small: free blocks as (size, address, block)
        self.held = {}       # by number of the allocation: its block
        self.allocated = self.reserved = self.allocated_peak = self.reserved_peak = 0
        self.lowest = 1 << 60  # new segments lie below older ones

    def segment(self, size, pool):
        whole = 2 * MIB if pool[1] else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        self.reserved += whole
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self.lowest -= whole + (1 << 32)
        return Block(self.lowest, whole, pool)

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


def peaks(events):
    """(allocated, reserved) of a list of events, and the same for each phase that it marks: {phase: (allocated, reserved)}."""
    allocator, number, phases, phase = Allocator(), 0, {}, 0
    for event in events:
        if event[0] == ALLOCATE:
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

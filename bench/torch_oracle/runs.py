"""Training runs (tools/checked/runs.py) traced on tensors without contents."""
import gc
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import bitsandbytes.backends.cuda.ops  # these three before a trace begins: what they make while they are imported is no part of a run
import peft
import transformers
from checked import runs, zero
from torch_trace import headroom_trace

from allocator import ALLOCATE, FREE, MARK
from settings import GPUS

gc.freeze()  # libraries stay; steps look for cycles among what is theirs
STEPS = 2  # that are traced: the second is as all behind it, but for what the first makes once
REPLAYED = 6


def steady(events):
    """A trace of two steps gone on with: the second again, until there are REPLAYED. What it frees of the step before it, it frees of
    its own when it comes again: as many as it leaves, in their order."""
    begins = {}
    for at, event in enumerate(events):
        if event[0] == MARK:
            begins.setdefault(event[2], at)
    last, end = events[begins[STEPS]:begins[STEPS + 1]], begins[STEPS + 1]
    first, behind = (sum(e[0] == ALLOCATE for e in events[:begins[k]]) for k in (STEPS, STEPS + 1))
    sizes = [e[1] for e in events if e[0] == ALLOCATE]
    freed = {e[1] for e in last if e[0] == FREE}
    taken, left = sorted(n for n in freed if n < first), [n for n in range(first, behind) if n not in freed]
    if [sizes[n] for n in taken] != [sizes[n] for n in left]:
        raise ValueError('the second step leaves other things than the first')
    follows, events = dict(zip(taken, left)), events[:end]
    for again in range(1, REPLAYED - STEPS + 1):
        events += [[FREE, follows.get(e[1], e[1]) + (again - (e[1] in follows)) * (behind - first)] if e[0] == FREE else e for e in last]
    return events


def traced(setting):
    """Events of the run, and the names of their calls."""
    train = runs.train
    if setting.get('zero'):
        zero.group_of_one()
        train = zero.train
    with headroom_trace(None, setting['batch'], GPUS[setting['gpu']]) as tracer:
        train(setting, STEPS, tracer.next_step)
    gc.collect()
    return steady(tracer.in_order()), list(tracer.names)

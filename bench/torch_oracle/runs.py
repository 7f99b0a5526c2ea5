"""Training runs (tools/checked/runs.py) traced on tensors without contents."""
import gc
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import bitsandbytes.backends.cuda.ops  # these three before a trace begins: what they make while they are imported is no part of a run
import peft
import transformers
from checked.runs import train
from torch_trace import headroom_trace

from allocator import ALLOCATE, FREE, MARK
from settings import GPUS

gc.freeze()  # libraries stay; steps look for cycles among what is theirs
STEPS = 3  # that are traced: the third is as all behind it
REPLAYED = 6


def steady(events):
    """A trace of STEPS steps gone on with: the last one again, until there are REPLAYED. What it frees of the step before it, it frees
    of its own when it comes again."""
    begins = {}
    for at, event in enumerate(events):
        if event[0] == MARK:
            begins.setdefault(event[2], at)
    last, end = events[begins[STEPS]:begins[STEPS + 1]], begins[STEPS + 1]
    made = [sum(e[0] == ALLOCATE for e in events[:begins[k]]) for k in (STEPS - 1, STEPS, STEPS + 1)]
    count = made[2] - made[1]
    if made[1] - made[0] != count or any(e[0] == FREE and e[1] < made[0] for e in last):
        raise ValueError('the last two steps differ')
    events = events[:end]
    for again in range(1, REPLAYED - STEPS + 1):
        events += [[FREE, e[1] + again * count] if e[0] == FREE else e for e in last]
    return events


def traced(setting):
    """Events of the run."""
    with headroom_trace(None, setting['batch'], GPUS[setting['gpu']]) as tracer:
        train(setting, STEPS, tracer.next_step)
    gc.collect()
    return steady(tracer.in_order())

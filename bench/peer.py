"""What the peers in PyTorch of this folder measure of a step: its time, and memory as PyTorch and the driver count it."""
import statistics
import time

import torch


def measured(step, warm, steps):
    """The median of `steps` steps behind `warm` others, in milliseconds, and the peaks so far in MiB."""
    times = []
    for _ in range(warm + steps):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    free, total = torch.cuda.mem_get_info()
    return {'ms': round(1e3 * statistics.median(times[warm:]), 2), 'allocated_mib': torch.cuda.max_memory_allocated() >> 20,
            'reserved_mib': torch.cuda.max_memory_reserved() >> 20, 'driver_mib': (total - free) >> 20}

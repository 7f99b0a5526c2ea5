"""Peaks of a run in this process, as PyTorch and the driver count them."""
import ctypes
import os
import time

import torch

from checked.runs import train

MIB = 1 << 20


class Process(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gpu', ctypes.c_uint), ('compute', ctypes.c_uint)]


def driver_bytes(pid=None):
    """What the driver counts for a process on the first GPU; None where it does not say. Where it knows processes by other numbers than
    this machine does (containers), the only one there is it."""
    pid = pid or os.getpid()
    try:
        nvml = ctypes.CDLL('libnvidia-ml.so.1')
        device, count = ctypes.c_void_p(), ctypes.c_uint(256)
        processes = (Process * count.value)()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) or \
                nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes):
            return None
    except (OSError, AttributeError):
        return None
    found = [p for p in processes[:count.value] if p.pid == pid] or (processes[:1] if count.value == 1 else [])
    return found[0].used if found and found[0].used < 1 << 50 else None


def measured(setting, steps, history=None):
    """{allocated_bytes, reserved_bytes, driver_bytes, card_bytes, step_ms, ...}. `history`: where to put what the allocator recorded."""
    if history:
        torch.cuda.memory._record_memory_history(context=None, max_entries=2000000)
    times, peaks = [], []

    def begins():
        torch.cuda.synchronize()
        times.append(time.perf_counter())
        peaks.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    free, total = torch.cuda.mem_get_info()
    before = total - free
    begun = time.perf_counter()
    train(setting, steps, begins)
    free, total = torch.cuda.mem_get_info()
    row = {'allocated_bytes': torch.cuda.max_memory_allocated(), 'reserved_bytes': torch.cuda.max_memory_reserved(),
           'reserved_at_end': torch.cuda.memory_reserved(), 'driver_bytes': driver_bytes(), 'card_bytes': total - free,
           'card_bytes_before': before, 'by_step': peaks, 'build_ms': round(1e3 * (times[0] - begun)),
           'step_ms': round(1e3 * min(b - a for a, b in zip(times, times[1:])), 2)}
    if history:
        torch.cuda.memory._dump_snapshot(history)
    return row


def versions():
    """Of what takes part."""
    import importlib.metadata
    out = {'torch': torch.__version__}
    for name in 'transformers', 'peft', 'bitsandbytes':
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return out

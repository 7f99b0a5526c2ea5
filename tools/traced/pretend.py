"""A GPU that is not there: what PyTorch asks of one while tensors without contents are on it.

Everything is put back when the context ends, but for the engine's two questions (engine_alone), which the process keeps:
it could not use CUDA before and cannot afterwards.
"""
import contextlib
import ctypes
import os
import platform
import sys
import types

import torch
import torch.cuda.amp.common
import torch.nn.utils.clip_grad as clip_grad
import torch.optim.optimizer as optimizers
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import four_bit, recurrent as cudnn

# A function that returns 0, in machine code: false, or an optional without a value.
RETURN_ZERO = {'x86_64': b'\x31\xc0\xc3', 'aarch64': b'\x00\x00\x80\xd2\xc0\x03\x5f\xd6'}
ENGINE_ASKS = ['_ZN2at11accelerator14getAcceleratorEb', '_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE']
RECURRENT = ['lstm', 'gru', 'rnn_tanh', 'rnn_relu']


class NoWay(Exception):
    """Tracing is not possible here; the text says why."""


def engine_alone():
    """Lets backward run on tensors that claim to be on CUDA where there is no GPU: the engine asks which accelerator there is and
    then wants its streams. It is told that there is none."""
    if torch.cuda.is_available():
        return
    code = RETURN_ZERO.get(platform.machine())
    remedy = 'trace on a machine with a GPU, or with PyTorch 2.15 on Linux (x86-64, ARM64)'
    if code is None or not sys.platform.startswith('linux'):
        raise NoWay('there is no GPU, and PyTorch on %s %s does not run backward without one: %s' % (
            sys.platform, platform.machine(), remedy))
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so'))
    page, libc = os.sysconf('SC_PAGESIZE'), ctypes.CDLL(None, use_errno=True)
    for symbol in ENGINE_ASKS:
        try:
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        except AttributeError:
            raise NoWay('PyTorch %s is not known well enough to trace without a GPU: %s' % (torch.__version__, remedy))
        begin = address // page * page
        span = ctypes.c_size_t(address + len(code) - begin)
        if libc.mprotect(ctypes.c_void_p(begin), span, 7) != 0:
            raise NoWay('this system does not let a program change its own code: %s' % remedy)
        ctypes.memmove(address, code, len(code))
        libc.mprotect(ctypes.c_void_p(begin), span, 5)
    torch._C._ensureCUDADeviceGuardSet()  # changes of the current device go nowhere


def size_only_tensors():
    """The mode in which tensors have no contents; made before torch.cuda pretends, which it asks whether a device may be used."""
    absent = not torch.cuda.is_available()

    class Mode(FakeTensorMode):
        avoid_device_init = property(lambda self: absent)
    return Mode(allow_non_fake_inputs=True)


def apply(self, fn, recurse=True):
    """Module._apply: parameters without contents cannot be changed in place, so that each gets a new one; those that several
    modules share stay shared."""
    if recurse:
        for module in self.children():
            module._apply(fn)
    for key, old in self._parameters.items():
        if old is None:
            continue
        new = old.__dict__.get('headroom_moved')
        if new is None:
            with torch.no_grad():
                value = fn(old)
            if value is old:
                continue
            if value.device == old.device and value.untyped_storage()._cdata == old.untyped_storage()._cdata:
                continue
            new = four_bit.quantised(old, value)
            if new is None:
                new = torch.nn.Parameter(value.detach(), old.requires_grad)
            del value
            for name, hung in old.__dict__.items():  # by the user
                new.__dict__.setdefault(name, hung)
            if old.grad is not None:
                new.grad = fn(old.grad)
            old.headroom_moved = new
        self._parameters[key] = new
    for key, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[key] = fn(buffer)
    return self


MULTIPROCESSORS = {75: 68, 80: 108, 86: 82, 87: 16, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170}  # the usual GPU's


def properties(capability):
    return types.SimpleNamespace(name='a GPU of compute capability %d.%d' % divmod(capability, 10), major=capability // 10,
                                 minor=capability % 10, total_memory=1 << 40, multi_processor_count=MULTIPROCESSORS.get(capability, 132),
                                 is_integrated=False, is_multi_gpu_board=False, gcnArchName='', warp_size=32,
                                 max_threads_per_multi_processor=1536 if capability in (86, 89) or capability >= 120 else 2048, regs_per_multiprocessor=65536,
                                 shared_memory_per_block_optin=227 << 10, L2_cache_size=50 << 20)


def libraries_as_on_a_gpu():
    """transformers goes other ways with tensors without contents (masks where a GPU needs none)."""
    library = sys.modules.get('transformers.utils.import_utils')
    if library is not None and hasattr(library, 'is_fake_tensor'):
        library.is_fake_tensor = lambda tensor: False


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """One step of a GRU without cuDNN, as its kernel allocates it: the state, and what backward needs."""
    return torch.empty_like(hx), hx.new_empty(hx.shape[0], 5 * hx.shape[1])


def gru_cell_backward(grad, workspace, has_bias):
    gates = [workspace.new_empty(workspace.shape[0], 3 * grad.shape[1]) for _ in range(2)]
    biases = [g.sum(0) if has_bias else g.new_empty(0) for g in gates]
    return gates[0], gates[1], torch.empty_like(grad), *biases


@contextlib.contextmanager
def cells():
    """Kernels of which PyTorch itself does not know what they do to sizes alone."""
    library = torch.library.Library('aten', 'IMPL')
    for name, sizes in (('_thnn_fused_gru_cell', gru_cell), ('_thnn_fused_gru_cell_backward', gru_cell_backward)):
        if not torch._C._dispatch_has_kernel_for_dispatch_key('aten::' + name, 'Meta'):
            library.impl(name, sizes, 'Meta')
    try:
        yield
    finally:
        library._destroy()


@contextlib.contextmanager
def scripted():
    """Functions of torch.jit.script run call by call: what its fuser makes of them is not known, and it asks the driver."""
    fused = torch._C._jit_can_fuse_on_gpu(), torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_override_can_fuse_on_gpu(False)
    torch._C._jit_set_texpr_fuser_enabled(False)
    try:
        yield
    finally:
        torch._C._jit_override_can_fuse_on_gpu(fused[0])
        torch._C._jit_set_texpr_fuser_enabled(fused[1])


@contextlib.contextmanager
def recurrent(note):
    """Recurrent layers without cuDNN, step by step, where what cuDNN keeps is not known."""
    def plain(name, original):
        def call(*args, **kwargs):
            if name == 'lstm' and len(args) == 9 and cudnn.known(args[0], args[1], *(args[i] for i in (5, 6, 4, 7))):
                return cudnn.lstm(*args)
            note('aten::' + name)
            with torch.backends.cudnn.flags(enabled=False):
                return original(*args, **kwargs)
        return call
    for name in RECURRENT:
        setattr(torch._VF, name, plain(name, getattr(torch._VF, name)))
    try:
        yield
    finally:
        for name in RECURRENT:
            delattr(torch._VF, name)


@contextlib.contextmanager
def gpu(capability, on_empty_cache):
    """torch.cuda as with one GPU, of which nothing has been used."""
    have = properties(capability)
    nothing = lambda *a, **k: None
    zero = lambda *a, **k: 0
    changes = [(torch.nn.Module, '_apply', apply), (torch.nn.RNNBase, 'flatten_parameters', cudnn.flatten), (torch.cuda.amp.common, 'amp_definitely_not_available', lambda: False),
               (torch.Tensor, 'pin_memory', lambda self, *a, **k: self)]
    # Optimizers and clipping take all tensors at once where they know their types.
    known = list(optimizers._foreach_supported_types) + [FakeTensor]
    changes += [(optimizers, '_foreach_supported_types', known),
                (clip_grad, '_has_foreach_support', lambda tensors, device: device.type == 'cuda')]
    own = lambda value: lambda *a, **k: value(*a, **k)  # PyTorch's compiler wants each name to be an object of its own
    changes += [(torch.cuda, name, own(value)) for name, value in {
        'is_available': lambda: True, 'device_count': lambda: 1, 'current_device': lambda: 0, '_lazy_init': nothing,
        'is_initialized': lambda: True, 'synchronize': nothing, 'empty_cache': on_empty_cache, 'set_device': nothing,
        'get_device_properties': lambda *a, **k: have, 'get_device_name': lambda *a, **k: have.name,
        'get_device_capability': lambda *a, **k: (have.major, have.minor), 'is_bf16_supported': lambda *a, **k: capability >= 80,
        'memory_allocated': zero, 'max_memory_allocated': zero, 'memory_reserved': zero, 'max_memory_reserved': zero,
        'reset_peak_memory_stats': nothing, 'manual_seed': nothing, 'manual_seed_all': nothing, 'memory_stats': lambda *a, **k: {},
        'mem_get_info': lambda *a, **k: (have.total_memory, have.total_memory), 'ipc_collect': nothing, 'is_current_stream_capturing': lambda: False, 'set_per_process_memory_fraction': nothing,
    }.items()]
    typed = lambda name, kind: type(name, (), {'__new__': lambda _, *a: torch.tensor(*a, dtype=kind, device='cuda')})  # FloatTensor([1.0]), of old
    changes += [(torch.cuda, name, typed(name, kind)) for name, kind in {
        'FloatTensor': torch.float32, 'HalfTensor': torch.float16, 'BFloat16Tensor': torch.bfloat16, 'ByteTensor': torch.uint8,
        'IntTensor': torch.int32, 'LongTensor': torch.int64}.items()]
    if hasattr(fake_tensor, 'init_gpu_context'):  # up to 2.12: the first tensor on a GPU opens it
        changes.append((fake_tensor, 'init_gpu_context', nothing))
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in changes if hasattr(holder, name)]
    if torch.cuda.is_available():  # the GPU that is there answers for itself
        changes = [c for c in changes if c[0] is not torch.cuda or c[1] == 'empty_cache']
    for holder, name, value in changes:
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)

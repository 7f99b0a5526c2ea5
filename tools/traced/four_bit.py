"""bitsandbytes without contents: 4-bit weights are quantised when they come to the GPU, 8-bit optimizers keep their states.

Its functions know tensors without contents, but for a few that look at values or call its library; these are replaced while a
trace runs. Only where bitsandbytes has been imported before.
"""
import contextlib
import sys

import torch


def weight(cls, data=None, requires_grad=False, quant_state=None, blocksize=None, compress_statistics=True, quant_type='fp4',
           quant_storage=torch.uint8, module=None, bnb_quantized=False, **words):
    """Params4bit.__new__: its own class cannot be put on a tensor without contents."""
    data = torch.empty(0) if data is None else data
    self = torch.nn.Parameter(data.detach(), requires_grad)
    self.blocksize, self.compress_statistics = blocksize or 64, compress_statistics
    self.quant_type, self.quant_state, self.quant_storage = quant_type, quant_state, quant_storage
    self.bnb_quantized, self.module, self.headroom_4bit = bnb_quantized, module, True
    return self


def quantised(old, value):
    """The weight that has come to the GPU, in 4 bits; None: it is none, or is already."""
    if not old.__dict__.get('headroom_4bit') or old.bnb_quantized or value.device.type != 'cuda':
        return None
    import bitsandbytes.functional as functional
    packed, state = functional.quantize_4bit(value.contiguous(), blocksize=old.blocksize, quant_type=old.quant_type,
                                             compress_statistics=old.compress_statistics, quant_storage=old.quant_storage)
    new = torch.nn.Parameter(packed.detach(), False)
    new.quant_state, new.bnb_quantized = state, True
    if old.module is not None:
        old.module.quant_state = state
    return new


def paged(*shape, dtype=torch.float32, device=None):
    """Managed memory: the allocator does not have it."""
    state = torch.empty(shape, dtype=dtype)
    state.is_paged, state.page_deviceid = True, 0
    return state


@contextlib.contextmanager
def without_contents():
    library = sys.modules.get('bitsandbytes')
    if library is None:
        yield
        return
    import bitsandbytes.functional as functional
    import bitsandbytes.optim.optimizer as optimizer
    nothing = lambda *args, **words: None
    changes = [(library.nn.modules.Params4bit, '__new__', staticmethod(weight)),
               (functional, 'create_dynamic_map', lambda *args, **words: torch.empty(256)), (functional, 'get_paged', paged),
               (functional, 'fill', nothing), (functional, 'prefetch_tensor', nothing), (optimizer, 'sync_gpu', nothing),
               (functional, 'optimizer_update_8bit_blockwise', nothing), (functional, 'optimizer_update_32bit', nothing)]
    changes = [c for c in changes if hasattr(c[0], c[1])]
    before = [(holder, name, holder.__dict__[name]) for holder, name, _ in changes]
    for holder, name, value in changes:
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)

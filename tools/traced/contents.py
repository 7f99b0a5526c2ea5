"""Contents of small whole-number tensors (positions, masks, labels) and of scalars, computed on the side.

Tensors without contents stop at every question about them: are all positions in a row, is anything masked, how many are
there. Most of these ask about small tensors of whole numbers that come from arange, ones or a constant; their operations are
done once more on the CPU, with contents, which hang on the tensor.
"""
import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

MOST = 1 << 20  # elements
MAKERS = {'aten::arange', 'aten::ones', 'aten::zeros', 'aten::full', 'aten::randint', 'aten::scalar_tensor', 'aten::eye',
          'aten::tril_indices', 'aten::triu_indices', 'aten::lift_fresh', 'aten::randperm'}
CPU = torch.device('cpu')


def small(tensor):
    fractions = tensor.is_floating_point() or tensor.is_complex()
    return tensor.numel() <= (1 if fractions else MOST) and tensor.layout == torch.strided


def of(tensor):
    """The contents; None: not known."""
    if isinstance(tensor, FakeTensor):
        return tensor.__dict__.get('headroom_contents')
    return tensor if tensor.device == CPU and small(tensor) else None


def call(function, args, kwargs, nothing=None):
    """The same call on contents, or `nothing` where those of an argument are not known."""
    flat, shape = pytree.tree_flatten((args, kwargs))
    for i, value in enumerate(flat):
        if isinstance(value, torch.Tensor):
            flat[i] = of(value)
            if flat[i] is None:
                return nothing
        elif isinstance(value, torch.device):
            flat[i] = CPU
    args, kwargs = pytree.tree_unflatten(flat, shape)
    try:
        with unset_fake_temporarily():
            return function(*args, **kwargs)
    except Exception:  # what the CPU has no kernel for
        return nothing


def follow(function, args, kwargs, out):
    """Notes the contents of a call's results, or that they are known no more."""
    results = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    if not results and function._schema.is_mutable:  # lists in place, such as the step numbers of an optimizer
        changed = [t for t in pytree.tree_leaves(args[:1]) if isinstance(t, FakeTensor)]
        if any(of(t) is not None for t in changed) and call(function, args, kwargs, nothing=False) is False:
            for tensor in changed:
                tensor.__dict__['headroom_contents'] = None
        return
    if not results or not all(isinstance(t, FakeTensor) and small(t) for t in results):
        return
    tensors = any(isinstance(t, torch.Tensor) for t in pytree.tree_leaves((args, kwargs)))
    values = call(function, args, kwargs) if tensors or function._schema.name in MAKERS else None
    values = [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
    for i, result in enumerate(results):
        result.__dict__['headroom_contents'] = values[i] if len(values) == len(results) else None


def nonzero(mask):
    """The places, as a tensor without contents on the mask's device that has them on the side; None: not known."""
    values = of(mask)
    if values is None:
        return None
    with unset_fake_temporarily():
        places = values.nonzero()
    out = torch.empty(places.shape, dtype=torch.int64, device=mask.device)
    out.__dict__['headroom_contents'] = places if places.numel() <= MOST else None
    return out

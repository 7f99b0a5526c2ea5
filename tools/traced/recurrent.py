"""cuDNN's LSTM, whose reserve for backward and workspace are sizes by formula.

The reserve is exact for layers in one direction: five gates and cells of each layer and step, and what goes between layers. The workspace was
recorded of one shape on an H200 (two layers, 512 to 1024, three batch sizes); its parts are those that give the three to the byte.
"""
import torch


def known(x, state, dropout, train, layers, both_ways):
    """Whether cuDNN's memory is known for these arguments of torch._VF.lstm."""
    return (isinstance(x, torch.Tensor) and isinstance(state, (tuple, list)) and len(state) == 2 and x.dim() == 3 and x.device.type == 'cuda' and
            x.dtype == torch.float32 and not both_ways and not (dropout and train and layers > 1) and state[0].shape == state[1].shape and
            not torch.is_autocast_enabled('cuda'))


def scratch(x, bytes):
    return torch.empty(bytes, dtype=torch.uint8, device=x.device)


def workspace_bytes(x, hidden, layers, weights):
    steps, batch, width = x.shape
    matrices = sum(w.numel() for w in weights if w.dim() == 2) + 4 * hidden * hidden
    return 4 * (5 * steps * batch * hidden + steps * batch * width + 10 * layers * batch * hidden + matrices) + 4 * layers * batch + 256


class Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h, c, layers, batch_first, train, *weights):
        steps = x.transpose(0, 1) if batch_first else x
        inner = steps.contiguous()
        size = (*inner.shape[:2], h.shape[-1])
        out, h_end, c_end = x.new_empty(size), torch.empty_like(h), torch.empty_like(c)
        work = scratch(x, workspace_bytes(inner, h.shape[-1], layers, weights))
        reserve = scratch(x, (6 * layers - 1) * out.numel() * 4 + 256) if train else None
        del work, inner
        ctx.layers, ctx.batch_first = layers, batch_first
        ctx.save_for_backward(x, out, h, c, reserve, *weights)
        return out.transpose(0, 1) if batch_first else out, h_end, c_end

    @staticmethod
    def backward(ctx, g, g_h, g_c):
        x, _, h, c, _, *weights = ctx.saved_tensors
        turned = (lambda t: t.transpose(0, 1)) if ctx.batch_first else (lambda t: t)
        inner, g = turned(x).contiguous(), turned(g).contiguous()
        g_x, g_h, g_c = torch.empty_like(inner), torch.empty_like(h), torch.empty_like(c)
        bytes = workspace_bytes(inner, h.shape[-1], ctx.layers, weights)
        scratch(x, bytes)
        del g, inner
        inner = turned(x).contiguous()
        flat = x.new_empty(sum(w.numel() for w in weights))
        scratch(x, bytes)
        grads = [part.view(w.shape) for part, w in zip(flat.split([w.numel() for w in weights]), weights)]
        return (turned(g_x), g_h, g_c, None, None, None, *grads)


def lstm(x, state, weights, biases, layers, dropout, train, both_ways, batch_first):
    return Lstm.apply(x, *state, layers, batch_first, train, *weights)


def flatten(module):
    """nn.RNNBase.flatten_parameters: all weights are parts of one buffer."""
    weights = [w for w in module._flat_weights if isinstance(w, torch.Tensor)]
    if not weights or any(w.device.type != 'cuda' or w.dtype != weights[0].dtype for w in weights) or getattr(module, 'proj_size', 0):
        return
    if len({w.untyped_storage()._cdata for w in weights}) < len(weights):
        return  # they are already
    with torch.no_grad():
        flat = weights[0].new_empty(sum(w.numel() for w in weights))
        for weight, part in zip(weights, flat.split([w.numel() for w in weights])):
            weight.data = part.view(weight.shape)

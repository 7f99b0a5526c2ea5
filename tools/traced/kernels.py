"""What CUDA kernels do that tensors without contents do not show: scratch, and which kernel attention takes."""
import contextlib
import sys
import types

import torch

from . import convolutions
from .convolutions import up


# ---- scratch of kernels, freed when the call returns: functions of its arguments that give sizes in bytes ----

def heads(q, k):
    """batch, query heads, whether keys have fewer, tokens, size of a head (PyTorch's order: batch, heads, tokens, size)"""
    return q.shape[0], q.shape[1], q.shape[1] != k.shape[1], q.shape[2], q.shape[3]


def cudnn_backward(_, q, k, v, *rest, **words):
    b, a, grouped, t, d = heads(q, k)
    full = 2 * b * a * k.shape[2] * d * q.element_size() if grouped else 0
    return [4 * b * a * t * d + 4 * b * a * t + 256 + full]


def flash_backward(_, q, k, v, *rest, **words):
    b, a, grouped, t, d = heads(q, k)
    rows = b * a * up(t, 128)
    full = b * a * k.shape[2] * d * q.element_size()
    return [4 * rows * up(d, 32), 4 * rows] + ([full, full] if grouped else [])


def efficient_backward(_, q, k, v, *rest, **words):
    b, a, _, t, d = heads(q, k)
    rows, columns = (64, 64) if d <= 64 else (128, 64) if d <= 96 else (128, 128)  # tiles of f32 sums, 16 bytes of locks for each
    tiles = b * a * up(t, rows) // rows * (up(d, columns) // columns)
    return [4 * b * a * t, tiles * (4 * rows * columns + 16) if q.element_size() < 4 else 0]


def embedding_backward(gradient, indices, rows, *rest, **words):
    n, width = indices.numel(), gradient.shape[-1]
    if n <= 3072:
        return [0] * 6  # none, but as many: traces of several batch sizes correspond
    segments = min(n, int(rows)) + n // 10
    return [8 * n] * 4 + [8 * segments, 4 * segments * up(width, 32)]


def unpacks(x, shape, block):
    """Whether bitsandbytes unpacks a 4-bit weight for a product with x, or has a kernel that reads it as it is. It asks the GPU."""
    library = sys.modules.get('bitsandbytes.backends.cuda.ops')
    rows, width = x.numel() // x.shape[-1], x.shape[-1]
    if library is None or not hasattr(library, '_gemm_4bit_use_custom_fn') or rows > library._gemm_4bit_custom_max_m or width % block:
        return True
    gpu = torch.cuda.get_device_properties(0)
    return not library._gemm_4bit_use_custom_fn((gpu.major, gpu.minor), x.dtype, rows, shape[0], width)  # which remembers by GPU


def gemm_4bit(x, packed, shape, statistics, block, *rest, **words):
    weights = shape[0] * shape[1]
    return [weights // 64 * 4] * 2 + [2 * weights] if unpacks(x, shape, block) else []


def safe_softmax(scores, *rest, **words):
    """Which scores and which whole rows are masked, and the number that these get."""
    n = scores.numel()
    return [n, n // scores.shape[-1], scores.element_size()]


def softmax_backward(gradient, *rest, **words):
    return [gradient.numel() * gradient.element_size()]  # its product with the result


def copies(*tensors):
    """Kernels that want their operands contiguous copy those that are not."""
    return [t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor) and not t.is_contiguous()]


def layer_norm(x, *rest, **words):
    return copies(x)


def layer_norm_backward(gradient, x, *rest, **words):
    return copies(gradient, x)


def roll(x, shifts, axes=(), *rest, **words):
    return [x.numel() * x.element_size()] * (len(axes) - 1)  # one axis after the other


def power_below(n, most):
    power = 1
    while power * 2 <= min(n, most):
        power *= 2
    return power


def rows_sum(x, axes=None, *rest, **words):
    """Sums of blocks where a sum over all rows divides them among blocks (Reduce.cuh): as src/torch/aten_reduce.c has it."""
    if not isinstance(axes, (list, tuple)) or x.dim() < 2 or sorted(a % x.dim() for a in axes) != list(range(x.dim() - 1)):
        return []
    columns = x.shape[-1]
    rows, wide = x.numel() // max(1, columns), next(w for w in (4, 2, 1) if columns % w == 0)
    most, across = 512 // wide, columns // wide
    height = min(power_below(rows, most), most // min(power_below(across, most), 32))
    width = power_below(across, most // height)
    values, grid = -(-rows // height), -(-across // width)
    properties = torch.cuda.get_device_properties(0)
    target = properties.multi_processor_count * (properties.max_threads_per_multi_processor // (width * height))
    if values < 256 or grid > target:
        return [0]  # none, but an event: traces of several batch sizes correspond
    blocks = max(min(-(-target // grid), -(-values // 16)), -(-values // 256))
    return [4 * columns * blocks * width * wide if blocks > 1 else 0]


SCRATCH = {
    'aten::convolution': convolutions.forward,
    'aten::convolution_backward': convolutions.backward,
    'aten::sum': rows_sum,
    'aten::native_layer_norm': layer_norm,
    'aten::native_layer_norm_backward': layer_norm_backward,
    'aten::roll': roll,
    'aten::_safe_softmax': safe_softmax,
    'aten::_softmax_backward_data': softmax_backward,
    'aten::_scaled_dot_product_cudnn_attention_backward': cudnn_backward,
    'aten::_scaled_dot_product_flash_attention_backward': flash_backward,
    'aten::_scaled_dot_product_efficient_attention_backward': efficient_backward,
    'aten::embedding_dense_backward': embedding_backward,
    'bitsandbytes::gemm_4bit': gemm_4bit,
}
SCRATCH_FIRST = {'bitsandbytes::gemm_4bit', 'aten::native_layer_norm', 'aten::roll'}  # taken before the result is; others have theirs behind it
BEFORE = {'aten::convolution': convolutions.operand, 'aten::convolution_backward': convolutions.operands}  # beside what comes behind the result
SCRATCH_IN_TURN = {'aten::convolution_backward'}  # one goes before the next comes


# ---- attention: which kernel CUDA would take ----

def attention_kernel(capability, q, k, mask, dropout, grouped):
    half = q.dtype in (torch.float16, torch.bfloat16)
    d = q.shape[-1]
    if mask is not None and mask.stride(-1) != 1:  # T5's, whose last axis is that of heads
        return 'math'
    if half and capability >= 90 and capability < 120 and d <= 128 and d % 8 == 0 and not (mask is not None and mask.requires_grad):
        return 'cudnn'
    if half and mask is None and d <= 256 and capability >= 80:
        return 'flash'
    if not grouped and d % (8 if half else 4) == 0 and capability >= 50:
        return 'efficient'
    return 'math'


def added(mask, kind):
    """Kernels add masks: true is 0, false a large negative number."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    numbers = [torch.scalar_tensor(value, dtype=kind, device=mask.device) for value in (float('-inf'), 0.0)]
    return torch.where(mask, numbers[1], numbers[0])


def aligned(mask):
    """The efficient kernel wants rows to begin at whole 8 elements."""
    if mask is None or all(stride % 8 == 0 for stride in mask.stride()[:-1]):
        return mask
    length = mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, 8 - length % 8))[..., :length]


def by_products(q, k, v, mask, dropout, causal, scale, grouped):
    """The math kernel: of what CUDA gets the mask is added in place; tensors without contents would go another way."""
    kind = q.dtype
    wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
    q_wide, k_wide, v_wide = (t.to(wide) for t in (q, k, v))
    factor = (scale or q.shape[-1] ** -0.5) ** 0.5
    scaled = q_wide * factor
    if causal:
        mask = added(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(), wide)
    times = q.shape[-3] // k.shape[-3] if grouped else 1
    keys, values = (t.repeat_interleave(times, -3) if times > 1 else t for t in (k_wide, v_wide))
    scores = scaled @ (keys.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    parts = torch.ops.aten._safe_softmax(scores, -1)
    del scores
    if dropout > 0.0:
        parts = torch.nn.functional.dropout(parts, dropout)
    narrow = parts.to(kind)
    return (parts @ values).to(kind)


def attention(capability, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """F.scaled_dot_product_attention, by the kernel that a GPU of this capability takes."""
    if torch.is_autocast_enabled('cuda'):
        kind = torch.get_autocast_dtype('cuda')
        cast = lambda t: torch.ops.aten._to_copy(t, dtype=kind) if t is not None and t.is_floating_point() and t.dtype != kind else t
        attn_mask, v, k, q = (cast(t) for t in (attn_mask, v, k, q))  # C++ goes from the last to the first
    grouped = enable_gqa and q.shape[-3] != k.shape[-3]
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
    kernel = attention_kernel(capability, q, k, attn_mask, dropout_p, grouped) if q.dim() == 4 else 'math'
    aten = torch.ops.aten
    attn_mask = added(attn_mask, q.dtype)
    if kernel == 'cudnn':
        return aten._scaled_dot_product_cudnn_attention(q, k, v, attn_mask, wanted, dropout_p, is_causal, False,
                                                        scale=scale)[0]
    if kernel == 'flash':
        return aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
    if kernel == 'efficient':
        attn_mask = aligned(attn_mask)
        if attn_mask is not None:
            attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        return aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, wanted, dropout_p, is_causal,
                                                            scale=scale)[0]
    with torch.autocast('cuda', enabled=False):
        return by_products(q, k, v, attn_mask, dropout_p, is_causal, scale, grouped)


@contextlib.contextmanager
def instead(original, replacement):
    """Puts a function wherever another is known by name. (A mode would not reach what checkpoints compute again in backward.)"""
    places = [(module, name) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)
              for name, value in list(vars(module).items()) if value is original]
    for module, name in places:
        setattr(module, name, replacement)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)


@contextlib.contextmanager
def as_on_a_gpu(capability, tracer):
    """F.scaled_dot_product_attention is `attention`, and the tracer knows where F.linear runs."""
    attend, multiply, active = torch.nn.functional.scaled_dot_product_attention, torch.nn.functional.linear, True

    def scaled_dot_product_attention(query, key, value, *args, **kwargs):
        if not active or query.device.type != 'cuda':
            return attend(query, key, value, *args, **kwargs)
        return attention(capability, query, key, value, *args, **kwargs)

    def linear(input, weight, bias=None):
        tracer.linear += active
        try:
            return multiply(input, weight, bias)
        finally:
            tracer.linear -= active
    try:
        with instead(attend, scaled_dot_product_attention), instead(multiply, linear):
            yield
    finally:
        active = False  # for names that were taken meanwhile

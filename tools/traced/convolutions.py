"""Workspaces of cuDNN's convolutions, as an H200 recorded them with cuDNN 9 (bench/torch_measured).

Tensor cores want channels last. Of tensors with channels first the workspace has all three in that order: input, weight and result,
channels padded to whole 16 bytes. Where the gradient of a small weight is summed in parts, these come on top: no rule for their number
is known, 4 MiB is about what they take (0 to 13 MiB were recorded).
"""
import math

import torch

PARTS = 4 << 20
HALF = (torch.float16, torch.bfloat16)


def up(number, step):
    return -(-number // step) * step


def padded(shape, channels, step):
    """Elements, with the axes `channels` in whole steps."""
    return math.prod(up(n, step) if at in channels else n for at, n in enumerate(shape))


class Convolution:
    def __init__(self, x, weight, strides, padding, dilation, transposed, more, groups):
        self.x, self.weight, self.strides = x, weight, strides
        self.kernel, places = weight.shape[2:], x.shape[2:]
        each = lambda values: values * len(places) if len(values) == 1 else values
        axes = list(zip(places, self.kernel, each(strides), each(padding), each(dilation), each(more or [0])))
        if transposed:
            out = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in axes]
        else:
            out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, m in axes]
        self.out = (x.shape[0], weight.shape[1 if transposed else 0], *out)
        self.few = min(weight.shape[:2])
        self.step = 8 if x.dtype in HALF else 4
        self.pointwise = all(k == 1 for k in self.kernel)
        self.product = self.pointwise and all(s == 1 for s in strides) and not any(padding)  # of matrices, as they are
        self.places = math.prod(places)
        single = self.places == 1 or math.prod(out) == 1  # a product as well
        self.counted = groups == 1 and not single and x.is_contiguous() and self.on_tensor_cores()

    def on_tensor_cores(self):
        major = torch.cuda.get_device_properties(0).major
        if self.x.dtype in HALF:
            return major >= 7
        return self.x.dtype == torch.float32 and major >= 8 and torch.backends.cudnn.allow_tf32 and all(n % 4 == 0 for n in self.weight.shape[:2])

    def copies(self):
        parts = [padded(self.x.shape, (1,), self.step), padded(self.out, (1,), self.step)]
        if not self.pointwise:  # whose weights are in either order
            parts.append(padded(self.weight.shape, (0, 1) if self.few < self.step else (), self.step))
        return sum(parts) * self.x.element_size() + 16

    def forward(self):
        thin = self.few < 3 or self.few < 8 and list(self.kernel) == list(self.strides)  # pixels to patches
        return 0 if not self.counted or thin or self.product and self.places % 4 == 0 else self.copies()

    def gradient_of_input(self):
        return 0 if not self.counted or self.product and self.places % 4 == 0 and self.few >= 8 else self.copies()

    def gradient_of_weight(self):
        if not self.counted:
            return 0
        sums = 4 * self.weight.numel()
        if self.product and self.places % 8 == 0 and self.few >= 8:
            return min(self.copies(), self.x.shape[0] * sums)  # of each image
        return self.copies() + PARTS // sums * sums


def copy(t):
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim())
    dense = t.is_contiguous() or last is not None and t.is_contiguous(memory_format=last)
    return [] if dense else [t.numel() * t.element_size()]


def operand(x, *rest, **words):
    return copy(x)


def operands(gradient, x, *rest, **words):
    return copy(gradient) + copy(x)


def forward(x, weight, bias, strides, padding, dilation, transposed, more, groups):
    return [Convolution(x, weight, strides, padding, dilation, transposed, more, groups).forward()]


def backward(gradient, x, weight, biases, strides, padding, dilation, transposed, more, groups, wanted):
    convolution = Convolution(x, weight, strides, padding, dilation, transposed, more, groups)
    return [convolution.gradient_of_input() if wanted[0] else 0, convolution.gradient_of_weight() if wanted[1] else 0]

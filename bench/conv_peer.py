#!/usr/bin/env python3
"""cuDNN's deterministic engines, through PyTorch, for the convolutions of system 003's U-Net (16 frames of 720p) and of
ResNet-50 (100 images): milliseconds and TFLOP/s, channels last and channels first.

    conv_peer.py SECONDS      stops in time
"""
import sys, time, torch
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
END = time.time() + float(sys.argv[1])
L0, L1, L2, U0, U1 = (16, 720, 1280), (8, 361, 641), (4, 181, 321), (16, 724, 1284), (8, 362, 642)
UNET = [  # name, in, out, size, kernel, stride, padding, gradient of x wanted
    ("up.0 32+32>32", 64, 32, U0, 3, 1, 1), ("up.0 half 32>32", 32, 32, U0, 3, 1, 1), ("down.0 3>32", 3, 32, L0, 3, 1, 1),
    ("up.1 128>64", 128, 64, U1, 3, 1, 1), ("up.1 half 64>64", 64, 64, U1, 3, 1, 1), ("down.1 32>64", 32, 64, L1, 3, 1, 1),
    ("up.2 256>128", 256, 128, L2, 3, 1, 1), ("down.2 64>128", 64, 128, L2, 3, 1, 1), ("bottleneck 128>256", 128, 256, L2, 3, 1, 1),
    ("halve 32>32", 32, 32, L0, 2, 2, (0, 1, 1)), ("halve 64>64", 64, 64, L1, 2, 2, (0, 1, 1)),
    ("double 64>32 (as dx of 32>64)", 32, 64, U0, 2, 2, 0), ("mask 32>1", 32, 1, U0, 1, 1, 0)]
def resnet():
    rows = [("stem 3>64 7x7/2", 3, 64, (224, 224), 7, 2, 3, 1)]
    size, before = 56, 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        out = size // stride
        rows += [(f"1x1 {before}>{width} {size}", before, width, (size, size), 1, 1, 0, 1), (f"3x3/{stride} {width} {size}", width, width, (size, size), 3, stride, 1, 1),
                 (f"1x1 {width}>{4*width} {out}", width, 4 * width, (out, out), 1, 1, 0, blocks), (f"1x1/{stride} {before}>{4*width} {size}", before, 4 * width, (size, size), 1, stride, 0, 1),
                 (f"1x1 {4*width}>{width} {out}", 4 * width, width, (out, out), 1, 1, 0, blocks - 1), (f"3x3 {width} {out}", width, width, (out, out), 3, 1, 1, blocks - 1)]
        size, before = out, 4 * width
    return rows
def timed(f, repeats=4):
    f(); torch.cuda.synchronize()
    best = 1e9
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); f(); b.record(); torch.cuda.synchronize()
        best = min(best, a.elapsed_time(b))
    return best
def triple(v, n): return (v,) * n if isinstance(v, int) else v
def one(rows, dtype, last, samples, parts):
    total = {}
    for row in rows:
        name, cin, cout, size, k, s, p = row[:7]
        count = row[7] if len(row) > 7 else 1
        if time.time() > END: print("out of time"); return
        n = len(size); k, s, p = triple(k, n), triple(s, n), triple(p, n)
        fmt = (torch.channels_last_3d if n == 3 else torch.channels_last) if last else torch.contiguous_format
        try:
            x = torch.randn((samples, cin) + size, device="cuda", dtype=dtype).to(memory_format=fmt)
            w = torch.randn((cout, cin) + k, device="cuda", dtype=dtype).to(memory_format=fmt)
            b = torch.zeros(cout, device="cuda", dtype=dtype)
            conv = torch.ops.aten.convolution
            y = conv(x, w, None, s, p, (1,) * n, False, (0,) * n, 1)
            dy = torch.randn_like(y)
            flops = 2.0 * y.numel() * cin * k[0] * k[1] * (k[2] if n == 3 else 1)
            line = f"{str(dtype)[6:]:9}{'last' if last else 'first':6}{name:32}"
            def show(label, ms):
                total[label] = total.get(label, 0) + count * ms
                return f" {label} {ms:8.3f} ms {flops / ms * 1e-9:6.1f} T"
            back = torch.ops.aten.convolution_backward
            jobs = {"fwd": lambda: conv(x, w, None, s, p, (1,) * n, False, (0,) * n, 1),
                    "relu": lambda: torch.cudnn_convolution_relu(x, w, b, s, p, (1,) * n, 1),
                    "dx": lambda: back(dy, x, w, None, s, p, (1,) * n, False, (0,) * n, 1, [True, False, False]),
                    "dw": lambda: back(dy, x, w, None, s, p, (1,) * n, False, (0,) * n, 1, [False, True, False])}
            for part in parts:
                if part == "dx" and cin == 3: continue
                try: line += show(part, timed(jobs[part]))
                except Exception as e: line += f" {part} {type(e).__name__} {str(e)[:60]}"
            print(line, flush=True)
            del x, w, y, dy
        except Exception as e:
            print(name, type(e).__name__, str(e)[:100], flush=True)
        torch.cuda.empty_cache()
    print("sum", {k: round(v, 3) for k, v in total.items()}, flush=True)
print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())
one(UNET, torch.bfloat16, True, 1, ("fwd", "dx", "dw"))
one(resnet(), torch.bfloat16, True, 100, ("fwd", "relu"))
one(UNET, torch.bfloat16, False, 1, ("fwd", "dx", "dw"))
one(UNET, torch.float32, True, 1, ("fwd", "dx", "dw"))
one(resnet(), torch.bfloat16, False, 100, ("fwd",))
one(UNET, torch.float32, False, 1, ("fwd", "dx", "dw"))

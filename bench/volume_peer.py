#!/usr/bin/env python3
"""PyTorch on the video branch of system 003: a 3-D U-Net over frames of 720p that gives a mask, trained by AdamW.

    volume_peer.py [--frames T] CASE...      plain, recomputed, f32; a JSON line each

Autocast to bf16 but for f32; times are medians of steady steps. Without a GPU, what a run would hold:

    python3 tools/torch_trace.py bench/volume_peer.py:plain -o video.json       and so on: recomputed, f32, plain_84, recomputed_84
    build/headroom plan video.json --gpu H200
"""
import argparse
import gc
import json
import statistics

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HEIGHT, WIDTH, GROUPS, WARM, STEPS = 720, 1280, 8, 2, 5


class Level(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.convolution, self.norm = nn.Conv3d(given, made, 3, padding=1), nn.GroupNorm(GROUPS, made)

    def forward(self, x):
        return functional.gelu(self.norm(self.convolution(x)))


class Network(nn.Module):
    def __init__(self, recomputes):
        super().__init__()
        self.down = nn.ModuleList([Level(3, 32), Level(32, 64), Level(64, 128)])
        self.halve = nn.ModuleList([nn.Conv3d(32, 32, 2, 2), nn.Conv3d(64, 64, 2, 2)])
        self.bottom = Level(128, 256)
        self.widen = nn.ModuleList([nn.ConvTranspose3d(128, 64, 2, 2), nn.ConvTranspose3d(64, 32, 2, 2)])
        self.up = nn.ModuleList([Level(384, 128), Level(128, 64), Level(64, 32)])
        self.mask, self.recomputes = nn.Conv3d(32, 1, 1), recomputes

    def run(self, level, *given):
        return checkpoint(level, *given, use_reentrant=False) if self.recomputes else level(*given)

    def forward(self, x):
        full = self.run(self.down[0], x)
        half = self.run(self.down[1], self.halve[0](full))
        quarter = self.run(self.down[2], self.halve[1](half))
        y = self.run(self.bottom, quarter)
        y = self.run(lambda a, b: self.up[0](torch.cat([a, b], 1)), y, quarter)
        y = self.run(lambda a, b: self.up[1](torch.cat([self.widen[0](a), b], 1)), y, half)
        return self.mask(self.run(lambda a, b: self.up[2](torch.cat([self.widen[1](a), b], 1)), y, full))


def stepping(frames, narrow=True, recomputes=False):
    """A function that trains on one made-up sample once."""
    network = Network(recomputes).cuda()
    video = torch.rand(1, 3, frames, HEIGHT, WIDTH, device='cuda')
    mask = (torch.rand(1, 1, frames, HEIGHT, WIDTH, device='cuda') > 0.9).float()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=narrow):
            loss = functional.binary_cross_entropy_with_logits(network(video).float(), mask)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def plain():
    return stepping(16)


def recomputed():
    return stepping(16, recomputes=True)


def f32():
    return stepping(16, narrow=False)


def plain_84():
    return stepping(84)


def recomputed_84():
    return stepping(84, recomputes=True)


def measure(case, frames):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step, times = stepping(frames, case != 'f32', case == 'recomputed'), []
    for i in range(WARM + STEPS):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        times += [begin.elapsed_time(end)] if i >= WARM else []
    print(json.dumps({'case': case, 'frames': frames, 'ms': round(statistics.median(times), 2),
                      'allocated_mib': round(torch.cuda.max_memory_allocated() / 2 ** 20, 1),
                      'reserved_mib': round(torch.cuda.max_memory_reserved() / 2 ** 20, 1)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--frames', type=int, default=16)
    parser.add_argument('cases', nargs='+', choices=['plain', 'recomputed', 'f32'])
    options = parser.parse_args()
    for case in options.cases:
        measure(case, options.frames)


if __name__ == '__main__':
    main()

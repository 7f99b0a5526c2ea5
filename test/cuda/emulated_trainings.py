#!/usr/bin/env python3
"""Whole trainings through the emulated plug-in (test/cuda/host) against the CPU: losses to rounding, and of what memory
techniques must not change the bits.

    HEADROOM_CUDA_PLUGIN=build/emulated/libheadroom_cuda.so python3 test/cuda/emulated_trainings.py build/headroom
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'cli'))
from support import Folder, check, finish, run  # noqa: E402

STEPS = 3
DECODER = 'hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2'
MODELS = {
    'llama': f'{{ family: llama, config: {{ {DECODER}, vocab_size: 96 }} }}',
    'qwen2': f'{{ family: qwen2, config: {{ {DECODER}, vocab_size: 96, tie_word_embeddings: true }} }}',
    'qwen3': f'{{ family: qwen3, config: {{ {DECODER}, vocab_size: 96, head_dim: 32 }} }}',
    # windows, norms on both sides and of heads, gates by gelu, heads wider than the rest
    'gemma3': f'{{ family: gemma3, config: {{ {DECODER}, vocab_size: 96, head_dim: 32, sliding_window: 5, '
              f'sliding_window_pattern: 2, query_pre_attn_scalar: 24 }} }}',
    'mamba2': '{ family: mamba2, config: { vocab_size: 256, hidden_size: 32, num_hidden_layers: 2, state_size: 16, '
              'num_heads: 4, head_dim: 16, n_groups: 2, chunk_size: 16 } }',
    'gesture': '{ family: gesture, config: { hidden_dim: 16, d_state: 16, headdim: 8, num_layers: 2, num_classes: 8, '
               'chunk_size: 8 } }',
    'bert': '{ family: bert, config: { vocab_size: 300, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, '
            'num_attention_heads: 4, max_position_embeddings: 32 } }',
    # a U-Net over 4 frames, and heads
    'multistream': '{ family: multistream, config: { frames: 4, frame_height: 8, frame_width: 10, head_size: 4, head_last: 4, '
                   'head_dropout: 0, infrared_branch: false, pair_branch: false, cooling_branch: false, motion_branch: false }, '
                   'parts: { video: { config: { width: 2, groups: 1, embedding: 4 } }, fusion: { config: { width: 8, heads: 2, '
                   'layers: 1, image: 4, class_width: 4, classes: 3, dropout: 0 } } } }',
}
DATA = {'multistream': '{ source: scenes, scenes: { samples: 8 } }'}
# Relative, of losses: as far as other orders of sums go in the first steps.
TOLERANCE = {'32-true': 2e-5, 'bf16-mixed': 5e-3, 'bf16-true': 1e-2, '16-mixed': 2e-3}
LORA = 'model.adapters={kind: lora, rank: 8, dropout: 0.1, targets: [all-linear]}'
PACKED = 'data={source: lines, path: lines.txt, sequence_length: 48, packing: true}'
RECORDINGS = ('data={source: events, sequence_length: 48, packing: true, events: {generate: 16, ratio_of_vectors: 0.06, '
              'train_ratio_of_vectors: 0.4}}')
LINES = 'a\nline of several words\none more\nand a last one, which is the longest\n' * 3
NF4 = 'model.quantize={kind: nf4, double: true}'

BY_FRAMES = 'memory.split={"video.*": 4}'

CASES = [(family, precision, []) for family in MODELS for precision in ('32-true', 'bf16-mixed')] + [
    ('llama', 'bf16-true', ['training.optimizer.kind=adamw8bit', 'training.clip_norm=0.5']),
    ('llama', '16-mixed', ['training.optimizer.kind=sgd', 'training.optimizer.momentum=0.9']),
    ('llama', 'bf16-true', [LORA, NF4]),
    ('mamba2', '32-true', [PACKED]),
    ('mamba2', 'bf16-mixed', [PACKED]),
    ('gesture', '32-true', [RECORDINGS]),
    ('gesture', 'bf16-mixed', [RECORDINGS]),
    ('gemma3', 'bf16-mixed', [LORA, 'training.gradient_accumulation=2']),
    ('qwen2', '32-true', ['memory.split={layers.*: 2, lm_head: 3}']),
    ('multistream', '32-true', [BY_FRAMES]),
    ('multistream', 'bf16-mixed', [BY_FRAMES, 'memory.checkpoint=every-layer']),
]
# On the device what moves or makes again must not change a bit.
SAME = [('gemma3', 'bf16-mixed', ['memory.checkpoint=every-layer']),
        ('llama', '32-true', ['memory.offload.parameters=host', 'memory.offload.activations=host']),
        ('llama', 'bf16-mixed', ['memory.offload.optimizer=host'])]


class Trainings:
    def __init__(self, folder):
        self.folder, self.done = folder, {}

    def train(self, family, precision, settings, device):
        key = (family, precision, tuple(settings), device)
        if key in self.done:
            return self.done[key]
        self.folder.write('lines.txt', LINES)
        recipe = self.folder.write(family + '.yaml', f'model: {MODELS[family]}\n'
                                   f'data: {DATA.get(family, "{ source: synthetic, sequence_length: 16 }")}\n'
                                   f'training: {{ batch_size: 2, steps: {STEPS}, optimizer: {{ lr: 1e-3 }} }}\n')
        out = os.path.join(self.folder.path, f'run{len(self.done)}')
        fixed = [f'memory.device={device}', f'model.precision={precision}', 'memory.budget=auto']
        result = run('train', recipe, '--json', '--out', out,
                     *(word for setting in fixed + settings for word in ('--set', setting)))
        losses = []
        if result.expect(0).code == 0:
            with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as log:
                losses = [line['loss'] for line in map(json.loads, log) if 'loss' in line]
            check(len(losses) == STEPS, f'{result.command}: {len(losses)} losses')
        self.done[key] = losses, result.json().get('weights_sha256') if losses else None
        return self.done[key]


def main():
    for name in ('HOME', 'XDG_CACHE_HOME'):  # with no place to keep them, rates of the device are not measured
        os.environ.pop(name, None)
    with Folder() as folder:
        trainings = Trainings(folder)
        for family, precision, settings in CASES:
            cpu, _ = trainings.train(family, precision, settings, 'cpu')
            gpu, _ = trainings.train(family, precision, settings, 'cuda')
            far = max((abs(a - b) / abs(a) for a, b in zip(cpu, gpu)), default=1.0)
            print(f'{family} {precision} {" ".join(settings)}: losses within {far:.1e}', flush=True)
            check(far <= TOLERANCE[precision], f'{family} {precision} {settings}: {cpu} on the CPU, {gpu} by kernels of CUDA')
        for family, precision, settings in SAME:
            plain, tested = (trainings.train(family, precision, s, 'cuda')[1] for s in ([], settings))
            check(plain and plain == tested, f'{family} {precision} {settings}: other weights than without')
    finish()


main()

#!/usr/bin/env python3
"""What headroom writes, read by transformers and PEFT, from another folder.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install torch transformers peft
    /tmp/reference/bin/python test/train/compare_peft.py build/headroom

Logits of the base with adapters (PEFT) against those of the merged model (transformers), in f32; a run without adapters
as transformers loads it.
"""
import os
import subprocess
import sys
import tempfile

import torch
from peft import AutoPeftModel, AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADROOM = os.path.abspath(sys.argv[1])
DATA = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=32', '--set', 'training.optimizer.lr=0.01']
FAMILIES = {
    'llama': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['q_proj', 'down_proj']),
    'mistral': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['all-linear']),
    'qwen2': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['k_proj', 'up_proj']),
    'qwen3': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['o_proj', 'gate_proj']),
    'bert': (AutoModelForMaskedLM, AutoPeftModel, ['query', 'value']),
}
SIZES = ('{hidden_size: 64, intermediate_size: 96, num_hidden_layers: 3, num_attention_heads: 4, vocab_size: 300, '
         'max_position_embeddings: 64')


def headroom(*arguments):
    subprocess.run([HEADROOM, *map(str, arguments), '--quiet'], check=True)


def newest(out):
    return os.path.join(out, sorted(name for name in os.listdir(out) if name.startswith('generation'))[-1])


def logits(model, ids):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


def compare(folder, family):
    plain, peft, targets = FAMILIES[family]
    first, run, merged = (os.path.join(folder, family + end) for end in ('-first', '-lora', '-merged'))
    heads = '' if family == 'bert' else ', num_key_value_heads: 2'
    recipe = os.path.join(folder, family + '.yaml')
    with open(recipe, 'w', encoding='utf-8') as file:
        file.write(f'model: {{ family: {family}, config: {SIZES}{heads}}} }}\ntraining: {{ steps: 3, batch_size: 2 }}\n'
                   'data: { source: synthetic, sequence_length: 32 }\nmemory: { device: cpu }\n')
    headroom('train', recipe, *DATA, '--out', first)
    base = newest(first)
    targets_text = ', '.join(targets)
    headroom('train', base, *DATA, '--steps', 4, '--set', f'model.adapters={{kind: lora, rank: 4, alpha: 12, targets: [{targets_text}]}}', '--out', run)
    headroom('merge', run, '--out', merged)
    ids = torch.arange(60).reshape(2, 30) * 3 % 300
    with_base = logits(plain.from_pretrained(base, dtype=torch.float32), ids)
    with_adapters = logits(peft.from_pretrained(newest(run), dtype=torch.float32), ids)
    with_merged = logits(plain.from_pretrained(merged, dtype=torch.float32), ids)
    worst = (with_adapters - with_merged).abs().max().item()
    moved = (with_base - with_merged).abs().max().item()
    print(f'{family:8} merged against PEFT {worst:.1e}, moved from the base by {moved:.1e}', flush=True)
    return worst <= 1e-5 and moved > 1e-2


with tempfile.TemporaryDirectory() as folder:
    os.chdir('/')
    good = [compare(folder, family) for family in FAMILIES]
sys.exit(0 if all(good) else 1)

#!/usr/bin/env python3
"""What headroom writes, read by transformers and PEFT, from another folder.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install torch transformers peft
    /tmp/reference/bin/python test/train/compare_peft.py build/headroom

Logits of the base with adapters (PEFT) against those of the merged model (transformers), in f32; a run without adapters
as transformers loads it; adapters that PEFT wrote, taken through a run and back.
"""
import os
import subprocess
import sys
import tempfile

import torch
from peft import AutoPeftModel, AutoPeftModelForCausalLM, LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADROOM = os.path.abspath(sys.argv[1])
DATA = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=32', '--set', 'training.optimizer.lr=0.01']
FAMILIES = {
    'llama': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['q_proj', 'down_proj']),
    'mistral': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['all-linear']),
    'qwen2': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['k_proj', 'up_proj']),
    'qwen3': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['o_proj', 'gate_proj']),
    'gemma3': (AutoModelForCausalLM, AutoPeftModelForCausalLM, ['v_proj', 'down_proj']),
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


def round_trip(folder, family, base, ids):
    """Adapters that PEFT wrote, through a run that does not change them, and the same merged."""
    plain, peft, targets = FAMILIES[family]
    written, run, merged = (os.path.join(folder, family + end) for end in ('-peft', '-on', '-on-merged'))
    model = get_peft_model(plain.from_pretrained(base, dtype=torch.float32),
                           LoraConfig(r=3, lora_alpha=7, use_rslora=True, target_modules=targets[0] if targets == ['all-linear'] else targets))
    for name, parameter in model.named_parameters():
        if 'lora_B' in name:
            torch.nn.init.normal_(parameter, std=0.05)
    expected = logits(model, ids)
    model.save_pretrained(written)
    headroom('train', base, *DATA, '--set', f'model.adapters.path={written}', '--set', 'training.optimizer.lr=0', '--set',
             'training.optimizer.weight_decay=0', '--steps', 1, '--out', run)
    headroom('merge', run, '--out', merged)
    again = logits(peft.from_pretrained(newest(run), dtype=torch.float32), ids)
    one = logits(plain.from_pretrained(merged, dtype=torch.float32), ids)
    return max((again - expected).abs().max().item(), (one - expected).abs().max().item())


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
    back = round_trip(folder, family, base, ids)
    print(f'{family:8} from PEFT and back {back:.1e}, merged against PEFT {worst:.1e}, moved from the base by {moved:.1e}', flush=True)
    return worst <= 1e-5 and back <= 1e-5 and moved > 1e-2


with tempfile.TemporaryDirectory() as folder:
    os.chdir('/')
    good = [compare(folder, family) for family in FAMILIES]
sys.exit(0 if all(good) else 1)

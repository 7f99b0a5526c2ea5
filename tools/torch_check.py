#!/usr/bin/env python3
"""What headroom says that a recipe holds in PyTorch, beside what it does hold here.

    tools/torch_check.py recipe.yaml [--set KEY=VALUE ...] [--table checked.jsonl]

Needs a GPU, transformers, and PEFT and bitsandbytes where the recipe asks for them. The run that `headroom plan --engine pytorch` speaks
of is built with random weights and made-up rows, goes through six steps, and predicted and measured peaks are printed; with
--table they are appended to a file with the versions that took part.
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

PRECISIONS = {'32-true': 'fp32', 'bf16-true': 'bf16', 'bf16-mixed': 'amp', '16-mixed': 'fp16amp'}


def said(done):
    """Why headroom refused, in a line; its answer is JSON, and else what it wrote."""
    try:
        error = json.loads(done.stdout)['error']
        return f"torch_check: {error['message']} ({error['place']}); {error['remedy']}"
    except (ValueError, KeyError):
        return (done.stderr or done.stdout).strip()


def predicted(options):
    """headroom's answer for the recipe on the GPU that is here."""
    command = [options.program, 'plan', options.recipe, '--engine', 'pytorch', '--json'] + (['--gpu', options.gpu] if options.gpu else [])
    for setting in options.set:
        command += ['--set', setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: it does not fit, which is an answer
        sys.exit(said(done))
    return json.loads(done.stdout)


def setting_of(answer):
    """What checked/runs.py runs, from the settings that a plan has settled."""
    s = answer['settings']
    model, training, engine, memory = (s[key] for key in ('model', 'training', 'engine', 'memory'))
    refused = [what for what, there in [
        ('engine.trainer other than loop', engine['trainer'] != 'loop'), ('engine.expandable_segments: set PYTORCH_ALLOC_CONF yourself and leave it out',
         engine['expandable_segments']), ('engine.adapters plain', engine['adapters'] != 'peft')] if there]
    from checked.runs import FAMILIES
    if model['family'] not in FAMILIES:
        refused.append('model.family ' + model['family'])
    if refused:
        sys.exit('torch_check: cannot be checked: ' + ', '.join(refused))
    adapters, optimizer = model.get('adapters'), training['optimizer']
    kind = optimizer['kind']
    if kind in ('adamw', 'sgd'):
        kind += '_' + engine['optimizer']
    setting = {'family': model['family'], 'config': model['config'], 'method': 'full', 'precision': PRECISIONS[model['precision']],
               'batch': training['batch_size'], 'tokens': s['data']['sequence_length'], 'attention': engine['attention'],
               'checkpoint': 'none' if memory['checkpoint'] == 'none' else engine['checkpoint'], 'optimizer': kind,
               'weight_decay': optimizer.get('weight_decay', 0.0), 'clip': bool(training.get('clip_norm')),
               'accumulation': training.get('gradient_accumulation', 1), 'padded': engine.get('padded', False)}
    if adapters:
        setting.update(method='qlora' if model.get('quantize') else 'lora', rank=adapters['rank'], dropout=adapters.get('dropout', 0.0))
    return setting


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE', help='as headroom plan takes it')
    parser.add_argument('--gpu', help='by which name headroom knows the GPU that is here')
    parser.add_argument('--table', metavar='FILE', help='append the comparison, a line of JSON')
    parser.add_argument('--steps', type=int, default=6)
    parser.add_argument('--program', default=os.path.join(ROOT, 'build', 'headroom'))
    options = parser.parse_args()
    answer = predicted(options)
    try:
        from checked import measure
    except ImportError as error:
        sys.exit('torch_check: %s; install PyTorch and what the recipe trains with' % error)
    setting = setting_of(answer)
    import torch
    if not torch.cuda.is_available():
        sys.exit('torch_check: there is no GPU that PyTorch can use')
    row = {'setting': setting, 'versions': measure.versions(), 'device': torch.cuda.get_device_name(0),
           'measured': measure.measured(setting, options.steps)}
    row['predicted'] = {key: answer['torch'][key] for key in ('allocated_bytes', 'reserved_bytes', 'driver_bytes')}
    print('%-10s %12s %12s' % ('', 'predicted', 'measured'))
    for key, said in row['predicted'].items():
        held = row['measured'][key]
        print('%-10s %8.1f MiB %s' % (key.split('_')[0], said / measure.MIB, 'not known' if held is None else
                                      '%8.1f MiB  %+.2f %%' % (held / measure.MIB, 100 * (said / held - 1))))
    if options.table:
        with open(options.table, 'a') as file:
            file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""training.generation_every: samples are shown and logged, and training gives the same bits with them as without, in all
settings that place or repeat things; the process stays within its plan."""
import json

from support import Folder, TINY, check, finish, run

EVERY = ('--set', 'training.generation_every=2', '--set', 'training.generation_prompts=["And God", "In the beg"]', '--set',
         'training.generation_tokens=6', '--set', 'generation.context=40')
WAYS = {
    'plain': [],
    'bf16-mixed': ['model.precision=bf16-mixed'],
    'f16': ['model.precision=16-mixed'],
    'accumulated': ['training.gradient_accumulation=3', 'training.eval_every=2'],
    'lora': ['model.adapters={kind: lora, rank: 4, dropout: 0.1}', 'model.precision=bf16-true'],
    'nf4': ['model.adapters={kind: lora, rank: 4}', 'model.quantize.kind=nf4', 'model.precision=bf16-mixed'],
    'recomputed': ['memory.checkpoint=every-layer'],
    'split': ['memory.split={"model.layers.*": 2, lm_head: 2}', 'training.batch_size=2'],
    'offloaded': ['memory.offload={optimizer: host, parameters: host, activations: host}', 'training.batch_size=2'],
    'in backward': ['memory.update=in-backward'],
    'averaged': ['training.ema=0.9', 'training.optimizer.kind=adamw8bit'],
}

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    for name, settings in WAYS.items():
        sets = [word for setting in settings for word in ('--set', setting)]
        plain = run('train', recipe, '--steps', '5', '--out', f'{folder.path}/plain-{name}', '--json', *sets).expect(0).json()
        told = run('train', recipe, '--steps', '5', '--out', f'{folder.path}/told-{name}', '--json', *sets, *EVERY).expect(0)  # 4: above the plan
        answer = told.json()
        check(answer['weights_sha256'] == plain['weights_sha256'], f'{name}: other weights')
        check('step 2: And God|' in told.err and 'step 4: In the beg|' in told.err, f'{name}: {told.err}')
        with open(f'{folder.path}/told-{name}/log.jsonl', encoding='utf-8') as file:
            lines = [json.loads(line) for line in file]
        samples = [line for line in lines if 'generated' in line]
        check([line['step'] for line in samples] == [2, 4], f'{name}: {samples}')
        check(all(len(line['generated']) == 2 and line['generated'][0]['prompt'] == 'And God' for line in samples), f'{samples}')

    # The last sample is what the saved run generates. (Every 5 of 5 steps: made of the same weights.)
    last = f'{folder.path}/last'
    run('train', recipe, '--steps', '5', '--out', last, '--quiet', *EVERY, '--set', 'training.generation_every=5').expect(0)
    with open(last + '/log.jsonl', encoding='utf-8') as file:
        made = [json.loads(line)['generated'] for line in file if 'generated' in line][-1]
    again = run('generate', last, '--prompt', 'And God', '--prompt', 'In the beg', '--max-tokens', '6', '--json').expect(0).json()
    check([one['text'] for one in again['answers']] == [one['text'] for one in made], f'{made} {again["answers"]}')

    # Settings of samples may change when a run goes on.
    run('train', recipe, '--steps', '8', '--out', last, '--quiet', '--resume').expect(0)

    # Wrong settings, before the first step.
    none = ('--set', 'training.generation_every=2')
    run('train', recipe, '--out', folder.path + '/x', *none).expect(5, 'generation_prompts')
    run('train', recipe, '--out', folder.path + '/x', *none, '--set', 'training.generation_prompts=[""]').expect(5, 'generation_prompts')
    run('train', recipe, '--out', folder.path + '/x', *none, '--set', 'training.generation_prompts=[much longer than sixteen]'
        ).expect(5, 'generation.context')
    run('plan', recipe, *EVERY, '--set', 'generation.context=100000').expect(5, 'positions')
finish()

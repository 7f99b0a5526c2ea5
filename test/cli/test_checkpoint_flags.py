#!/usr/bin/env python3
"""A folder with config.json is planned and trained from flags alone, and --set goes before what --method chooses."""
import json
import os

from support import Folder, ROOT, check, finish, run

SMALL = {'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4,
         'num_key_value_heads': 2, 'vocab_size': 320, 'max_position_embeddings': 128}
FAMILIES = ('llama', 'mistral', 'qwen2', 'qwen3', 'gemma3', 'bert')
# so that rank 16 is less than half of it: heads are 256 wide and the head is tied unless given
MORE = {'bert': {'num_key_value_heads': None}, 'gemma3': {'head_dim': 8, 'tie_word_embeddings': False}}


def plan(*arguments, code=0):
    return run('plan', *arguments, '--json').expect(code).json()


def setting(answer, path):
    value = answer.get('settings', {})
    for part in path.split('.'):
        value = value.get(part) if isinstance(value, dict) else None
    return value


with Folder() as folder:
    # A fresh model of every family, trained a little, is the checkpoint of the next run.
    for family in FAMILIES:
        shape = json.dumps(dict(SMALL, **MORE.get(family, {})))
        out = os.path.join(folder.path, f'{family}-run')
        recipe = folder.write(f'{family}.yaml', f'model: {{ family: {family}, config: {shape} }}\n'
                              'data: { source: synthetic, sequence_length: 16 }\ntraining: { steps: 2 }\n')
        run('train', recipe, '--out', out, '--quiet').expect(0)
        saved = os.path.join(out, 'generation-00000002')
        for method in ('full', 'lora', 'qlora'):
            answer = run('train', saved, '--method', method, '--seq', 16, '--batch', 2, '--steps', 1, '--out',
                         f'{out}-{method}', '--json', '--set', 'data.source=synthetic').expect(0).json()
            check(answer.get('steps') == 1, f'{family}: {method} from saved weights')
    for family in FAMILIES:
        folder.write(f'{family}/config.json', json.dumps(dict(SMALL, **MORE.get(family, {}), model_type=family)))
        path = os.path.join(folder.path, family)
        answers = {method: plan(path, '--method', method, '--seq', 64) for method in ('full', 'lora', 'qlora')}
        whole = answers['full']['model']['parameters']
        check(answers['full']['model']['trainable_parameters'] == whole, f'{family}: full trains every parameter')
        check(setting(answers['full'], 'model.adapters') is None, f'{family}: full has no adapters')
        for method in ('lora', 'qlora'):
            answer = answers[method]
            check(0 < answer['model']['trainable_parameters'] < whole / 2, f'{family}: {method} trains adapters')
            check(setting(answer, 'model.adapters.rank') == 16, f'{family}: rank unless given')
            check((setting(answer, 'model.quantize.kind') == 'nf4') == (method == 'qlora'), f'{family}: {method} packs')
        for answer in answers.values():
            check(setting(answer, 'data.sequence_length') == 64, f'{family}: --seq')
            check(setting(answer, 'model.precision') == 'bf16-mixed', f'{family}: precision unless given')

        answer = plan(path, '--method', 'lora', '--rank', 4, '--batch', 3, '--seq', 32)
        check(setting(answer, 'model.adapters.rank') == 4, f'{family}: --rank')
        check(setting(answer, 'training.batch_size') == 3, f'{family}: --batch')
        target = 'query' if family == 'bert' else 'q_proj'
        answer = plan(path, '--method', 'lora', '--set', 'model.precision=32-true', '--set',
                      f'model.adapters={{kind: lora, targets: [{target}]}}')
        check(setting(answer, 'model.precision') == '32-true', f'{family}: --set goes before --method')
        check(setting(answer, 'model.adapters.targets') == [target], f'{family}: a section of --set stays whole')
        check(setting(answer, 'model.adapters.rank') is None, f'{family}: also what it leaves out')

    small = os.path.join(folder.path, 'qwen3')
    run('train', small, '--method', 'full', '--seq', 16, '--steps', 2, '--out', os.path.join(folder.path, 'run'),
        '--json', '--set', 'data.source=synthetic').expect(5, 'model.safetensors')
    run('plan', small, '--method', 'qlorra').expect(2, '--method', 'did you mean qlora?')
    run('plan', small, '--method', 'none at all').expect(2, '--method', 'full, lora or qlora')
    run('plan', small, '--method', 'full', '--rank', 8).expect(2, '--rank', '--method lora')
    run('plan', small, '--seq', 'long').expect(2, '--seq', 'whole number')
    run('plan', small, '--batch', 0).expect(2, '--batch', 'at least 1')
    run('plan', small, '--seq', 129).expect(5, 'max_position_embeddings 128')

# With a recipe file only the method itself changes.
recipe = os.path.join(ROOT, 'recipes', 'qlora.yaml')
answer = plan(recipe, '--method', 'full', '--set', 'memory.budget=1GiB')
check(answer['model']['trainable_parameters'] == answer['model']['parameters'], 'a recipe without its adapters')
check(setting(answer, 'model.precision') == 'bf16-true', "the recipe's precision stays")
answer = plan(recipe, '--method', 'lora')
check(setting(answer, 'model.adapters.dropout') == 0.05, "the recipe's adapters stay")
check(setting(answer, 'model.quantize') is None, 'lora is not packed')
finish()

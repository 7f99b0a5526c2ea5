#!/usr/bin/env python3
"""headroom train --model DIR --data FILE: a whole training in one line; each flag is a setting of a recipe."""
import json
import os
import shutil

from support import Folder, ROOT, check, finish, run

LEVEL = os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level')
SMALL = ['--set', 'training.batch_size=1', '--set', 'data.sequence_length=64']


def settings(run_folder):
    newest = sorted(name for name in os.listdir(run_folder) if name.startswith('generation-'))[-1]
    return json.load(open(os.path.join(run_folder, newest, 'manifest.json'), encoding='utf-8'))['settings']


with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = os.path.join(folder.path, 'cache')
    first, model = os.path.join(folder.path, 'first'), os.path.join(folder.path, 'a model, named: oddly')
    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--set', 'model.config.vocab_size=420', '--steps', '1', '--out', first, *SMALL).expect(0)
    shutil.copytree(os.path.join(first, 'generation-00000001'), model)
    for name in ['tokenizer.json', 'tokenizer_config.json']:
        shutil.copy(os.path.join(LEVEL, name), model)
    chat = os.path.join(folder.path, "it's a chat.jsonl")
    with open(chat, 'w', encoding='utf-8') as file:
        for i in range(10):
            file.write(json.dumps({'prompt': f'What is {i}?', 'completion': f' It is {i}.'}) + '\n')

    out = os.path.join(folder.path, 'run')
    run('train', '--model', model, '--data', chat, '--method', 'qlora', '--gpu-memory', '2GiB', '--epochs', '1', '--out', out, *SMALL,
        '--set', 'memory.device=cpu').expect(0, 'saved in')
    made = settings(out)
    check(made['data.source'] == '"rows"' and made['data.path'].endswith('chat.jsonl"'), str(made['data.source']))
    check(made['model.quantize.kind'] == '"nf4"' and made['memory.budget'] in ('2147483648', '"2GiB"'), str(made['memory.budget']))
    log = [json.loads(line) for line in open(os.path.join(out, 'log.jsonl'), encoding='utf-8')]
    check(sum('loss' in line and 'step' in line for line in log) in (9, 10), 'one epoch is every row once, a step each')

    # A folder of such files, and one that --set says otherwise of.
    many = os.path.join(folder.path, 'many')
    os.mkdir(many)
    shutil.copy(chat, os.path.join(many, 'one.jsonl'))
    run('train', '--model', model, '--data', many, '--steps', '1', '--out', os.path.join(folder.path, 'second'), *SMALL).expect(0)
    check(settings(os.path.join(folder.path, 'second'))['data.source'] == '"rows"', 'files of a folder choose the source')
    run('train', '--model', model, '--data', chat, '--set', 'data.source=text', '--steps', '1', '--out', os.path.join(folder.path, 'third'),
        *SMALL).expect(0)
    check(settings(os.path.join(folder.path, 'third'))['data.source'] == '"text"', '--set goes before the ending')

    # Relative paths begin where the command was given, whatever folder the model or the recipe lies in.
    shutil.copy(chat, os.path.join(folder.path, 'chat.jsonl'))
    shutil.copytree(model, os.path.join(folder.path, 'model'))
    for number, words in enumerate([['--model', 'model', '--data', 'chat.jsonl'], ['model', '--set', 'data.path=chat.jsonl', '--set', 'data.source=rows'],
                                    ['--model', './model', '--data', '*.jsonl', '--method', 'lora']]):
        run('train', *words, '--steps', '1', '--out', f'relative-{number}', *SMALL, cwd=folder.path).expect(0)
    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--data', 'chat.jsonl', '--steps', '1', '--out', 'relative-3', *SMALL,
        '--set', 'data.tokenizer=model', '--set', 'model.config.vocab_size=420', cwd=folder.path).expect(5, os.path.join('recipes', 'model'))

    # With a recipe the flags change it.
    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--data', os.path.join(ROOT, 'README.md'), '--steps', '1', '--out',
        os.path.join(folder.path, 'fourth'), *SMALL).expect(0)
    check(settings(os.path.join(folder.path, 'fourth'))['data.path'].endswith('README.md"'), 'the data of the flag')

    # What is missing or wrong is named by the flag.
    run('train').expect(2, 'needs a recipe or a model', '--model DIR --data FILE')
    run('train', '--model', model, '--out', os.path.join(folder.path, 'none')).expect(2, 'no data', '--data FILE')
    run('train', '--model', os.path.join(folder.path, 'nothing'), '--data', chat).expect(5, 'no such file or folder')
    run('train', '--model', model, '--data', os.path.join(folder.path, 'nothing.jsonl'), '--out', os.path.join(folder.path, 'none')).expect(5, 'nothing.jsonl')
    run('train', '--model', model, '--data', chat, '--epochs', 'two').expect(2, '--epochs')
    run('train', '--model', model, '--data', chat, '--gpu-memory', '8').expect(2, '--gpu-memory', '8GiB')
    check(not os.path.exists(os.path.join(folder.path, 'none')), 'a refused run leaves no folder')

finish()

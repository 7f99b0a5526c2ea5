#!/usr/bin/env python3
"""headroom generate: answers, batches, stops, adapters on plain and NF4 bases, the plan, and wrong calls."""
import json
import os
import shutil
import signal
import subprocess

from schema import conforms
from support import Folder, HEADROOM, ROOT, TINY, check, finish, run

PROMPTS = ['And God said', 'In', 'the waters of the deep, and of the earth, and of the heaven above them all']


def answers(*arguments):
    result = run('generate', *arguments, '--json').expect(0)  # 4: the process held more than planned
    answer = result.json()
    conforms(answer, 'generate', result.command)
    check(0 < answer['planned_bytes'] and 0 < answer['measured_bytes'], f'{result.command}: {answer}')
    return answer


def texts(answer):
    return [one['text'] for one in answer['answers']]


with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    out = folder.path + '/run'
    run('train', recipe, '--steps', '20', '--out', out, '--quiet').expect(0)

    # One prompt, as text and as JSON; a batch is as each alone, whatever its size.
    first = answers(out, '--prompt', PROMPTS[0], '--max-tokens', '40')
    check(first['answers'][0]['end'] == 'max_tokens' and len(first['answers'][0]['ids']) == 40, f'{first}')
    check(first['context'] == 40 + first['answers'][0]['prompt_tokens'], f'context {first["context"]}')
    shown = run('generate', out, '--prompt', PROMPTS[0], '--max-tokens', '40').expect(0)
    check(shown.out == texts(first)[0] + '\n', f'shown {shown.out!r}, {texts(first)}')
    check('context: 52 tokens' in shown.err and 'tokens/s' in shown.err, f'{shown.err}')
    alone = [texts(answers(out, '--prompt', prompt, '--max-tokens', '40'))[0] for prompt in PROMPTS]
    every = [word for prompt in PROMPTS for word in ('--prompt', prompt)]
    for batch in ['1', '2', '3']:
        check(texts(answers(out, *every, '--max-tokens', '40', '--batch', batch)) == alone, f'batch {batch}')
    listed = folder.write('prompts.txt', '\n'.join(PROMPTS) + '\n\n')
    check(texts(answers(out, '--prompts', listed, '--max-tokens', '40')) == alone, 'prompts of a file')
    run('generate', out, *every, '--max-tokens', '5', '--quiet').expect(0, *PROMPTS)

    # Drawn: the same seed the same text, another one another.
    drawn = ('--prompt', PROMPTS[0], '--temperature', '1.5', '--top-k', '200', '--top-p', '0.99', '--min-p', '0.0001')
    one, same, other = (texts(answers(out, *drawn, '--seed', seed)) for seed in '778')
    check(one == same != other, f'{one} {same} {other}')
    penalized = texts(answers(out, '--prompt', PROMPTS[0], '--max-tokens', '40', '--repetition-penalty', '1.5'))
    check(penalized != texts(first), 'a penalty changes the text')

    # Stop strings end an answer and are not part of it.
    stop = texts(first)[0][3:6]
    stopped = answers(out, '--prompt', PROMPTS[0], '--max-tokens', '40', '--stop', 'no such', '--stop', stop)
    check(texts(stopped)[0] == texts(first)[0][:texts(first)[0].index(stop)], f'{stopped}')
    check(stopped['answers'][0]['end'] == 'stop_string', f'{stopped}')

    # The context ends an answer; a prompt that leaves no room is refused; what fits is taken where less does.
    full = answers(out, '--prompt', PROMPTS[0], '--max-context', '20')
    check(full['answers'][0]['end'] == 'max_context' and len(full['answers'][0]['ids']) == 8, f'{full}')
    run('generate', out, '--prompt', PROMPTS[2], '--max-context', '20').expect(5, 'leaves no room', '--max-context')
    plan = run('generate', out, '--plan', '--max-context', '2048', '--json').expect(0).json()
    conforms(plan, 'plan', 'generate --plan')
    check(plan['device']['categories']['cache'] > 0 and plan['device']['categories']['gradients'] == 0, f'{plan["device"]}')
    budget = plan['device']['peak_bytes'] - plan['device']['categories']['cache'] // 2
    less = ('--set', f'memory.budget={budget}')
    run('generate', out, '--plan', '--max-context', '2048', *less).expect(3)
    part = run('generate', out, '--prompt', 'In', '--max-tokens', '2000', *less, '--stop', ' ').expect(0)
    check('the largest that fits' in part.err, f'{part.err}')

    # A model folder with its end tokens, one or a list.
    model = folder.path + '/model'
    shutil.copytree(f'{out}/{sorted(name for name in os.listdir(out) if name.startswith("generation-"))[-1]}', model)
    bytes_too = ('--set', 'data.tokenizer=bytes')
    check(texts(answers(model, '--prompt', PROMPTS[0], '--max-tokens', '40', *bytes_too)) == texts(first), 'a model')
    end = first['answers'][0]['ids'][4]
    for ends in [end, [999, end]]:
        folder.write('model/generation_config.json', json.dumps({'eos_token_id': ends}))
        ended = answers(model, '--prompt', PROMPTS[0], *bytes_too)['answers'][0]
        check(ended['end'] == 'end_token' and ended['ids'] == first['answers'][0]['ids'][:first['answers'][0]['ids'].index(end)],
              f'{ended}')
    os.remove(model + '/generation_config.json')
    run('generate', model, '--prompt', 'x').expect(5, 'tokenizer', 'data.tokenizer')

    # Adapters beside their base, plain and in NF4, without being merged; a run and the adapter's folder are the same.
    for name, settings in [('lora', []), ('nf4', ['--set', 'model.quantize.kind=nf4'])]:
        adapted = f'{folder.path}/{name}'
        run('train', recipe, '--set', f'model.path={model}', '--set',
            'model.adapters={kind: lora, rank: 4, alpha: 32, targets: [q_proj, v_proj, down_proj]}', '--set',
            'training.optimizer.lr=0.01', '--steps', '20', '--out', adapted, '--quiet', *bytes_too, *settings).expect(0)
        spoken = answers(adapted, '--prompt', PROMPTS[0], '--max-tokens', '40')
        check(texts(spoken) != texts(first), f'{name}: the adapter does nothing')
        newest = sorted(one for one in os.listdir(adapted) if one.startswith('generation-'))[-1]
        if name == 'lora':
            again = answers(f'{adapted}/{newest}', '--prompt', PROMPTS[0], '--max-tokens', '40', *bytes_too)
            check(texts(again) == texts(spoken), f'{name}: the adapter by itself')

    # A tokenizer and a chat template: one message, and a conversation whose turns are those of one rendering.
    talker = folder.path + '/talker'
    larger = ('--set', 'model.config.vocab_size=420', '--set', 'training.optimizer.lr=0.01')
    run('train', recipe, '--steps', '3', '--out', talker, '--quiet', *larger).expect(0)
    for name in ['tokenizer.json', 'tokenizer_config.json']:
        shutil.copy(os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level', name), talker)
    run('generate', talker, '--chat', '--prompt', 'x').expect(1, 'chat template')
    folder.write('talker/chat_template.jinja', "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                 "{% if add_generation_prompt %}[assistant] {% endif %}")
    told = answers(talker, '--chat', '--prompt', 'who is it', '--max-tokens', '12')['answers'][0]
    plain = answers(talker, '--prompt', '[user] who is it\n[assistant] ', '--max-tokens', '12')['answers'][0]
    check(told['prompt'] == 'who is it' and told['ids'] == plain['ids'], f'{told} {plain}')
    said = subprocess.run([HEADROOM, 'generate', talker, '--chat', '--max-tokens', '12', '--max-context', '200'],
                          input=b'who is it\n\nand then\n/new\nwho is it\n', capture_output=True, timeout=60)
    check(said.returncode == 0, f'{said}')
    second = f'[user] who is it\n[assistant] {told["text"]}\n[user] and then\n[assistant] '
    then = answers(talker, '--prompt', second, '--max-tokens', '12')['answers'][0]
    check(said.stdout.decode() == ''.join(text + '\n' for text in [told['text'], then['text'], told['text']]),
          f'{said.stdout} {told["text"]!r} {then["text"]!r}')
    small = subprocess.run([HEADROOM, 'generate', talker, '--chat', '--max-tokens', '12', '--max-context', '60'],
                           input=b'who is it\n' * 5, capture_output=True, timeout=60)
    check(small.returncode == 0 and b'longer than the context' in small.stderr, f'{small}')

    # An adapter beside random weights has no base.
    drawn_base = folder.path + '/drawn'
    run('train', recipe, '--steps', '1', '--out', drawn_base, '--quiet', '--set', 'model.adapters.kind=lora').expect(0)
    run('generate', drawn_base, '--prompt', 'x').expect(5, 'random weights', 'model.path')

    # Killed while it writes: the code of the signal, and what was shown stays.
    process = subprocess.Popen([HEADROOM, 'generate', out, '--prompt', 'In', '--max-tokens', '90000', '--set',
                                'model.config.max_position_embeddings=100000'], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    begun = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=60)
    check(process.returncode == 130 and begun, f'{process.returncode} {told}')

    # Wrong calls.
    run('generate', out).expect(2, '--prompt')
    run('generate', folder.path + '/absent', '--prompt', 'x').expect(5, 'no such folder')
    run('generate', folder.path, '--prompt', 'x').expect(5, 'config.json')
    run('generate', out, '--prompt', '').expect(5, 'empty')
    run('generate', out, '--prompt', 'x', '--top-k', '4').expect(2, '--temperature')
    run('generate', out, '--prompt', 'x', '--temperature', 'hot').expect(2, 'between')
    run('generate', out, '--prompt', 'x', '--stop', '').expect(2, '--stop')
    run('generate', out, '--chat', '--prompt', 'x').expect(2, 'chat template')
    run('generate', out, '--prompt', 'x', '--prompts', listed).expect(2, '--prompts')
    run('generate', out, '--prompts', folder.write('empty.txt', '\n\n')).expect(5, 'no prompts')
    run('generate', out, '--prompt', 'x', '--max-context', '100000').expect(5, 'positions')
finish()

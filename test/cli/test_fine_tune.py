#!/usr/bin/env python3
"""The walk of docs/fine-tune.md with a small model that is made here: a checkpoint and conversations in, an adapter that has learnt
them, answers that end by themselves, and a merged model that gives the same ones."""
import json
import os
import shutil

from support import Folder, ROOT, check, finish, run

TOKENIZER = os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level')
CHAT = os.path.join(ROOT, 'recipes', 'tidewheel.jsonl')
TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
BASE = f"""\
model:
  family: llama
  config: {{ hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 420, tie_word_embeddings: true }}
data: {{ source: text, path: {os.path.join(ROOT, 'recipes', 'kjv.txt')}, tokenizer: {TOKENIZER}, sequence_length: 128 }}
training: {{ batch_size: 4, steps: 150, optimizer: {{ lr: 3e-3 }} }}
"""

FACTS, EPOCHS = 4, 80

rows = [json.loads(line) for line in open(CHAT, encoding='utf-8')]
check(len(rows) == 200 and all([m['role'] for m in row['messages']] == ['user', 'assistant'] for row in rows), 'conversations of two')
asked = [row['messages'][0]['content'] for row in rows]
check(len(set(asked)) == 200 and not set(asked[160:]) & set(asked[:160]), 'no question twice: what is held out is new')
made = os.popen(f'{shutil.which("python3")} {os.path.join(ROOT, "recipes", "tidewheel.py")}').read()
check(made == open(CHAT, encoding='utf-8').read(), 'the file is what its script makes')


def losses(out):
    lines = [json.loads(line) for line in open(os.path.join(out, 'log.jsonl'), encoding='utf-8')]
    return [line['loss'] for line in lines if 'loss' in line and 'eval_loss' not in line], [line['eval_loss'] for line in lines if 'eval_loss' in line]


with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = os.path.join(folder.path, 'cache')

    def at(name):
        return os.path.join(folder.path, name)

    run('train', folder.write('base.yaml', BASE), '--out', at('base')).expect(0)
    shutil.copytree(at('base/generation-00000150'), at('model'))
    folder.write('model/chat_template.jinja', TEMPLATE)
    for name in ('tokenizer.json', 'tokenizer_config.json'):
        shutil.copy(os.path.join(TOKENIZER, name), at('model'))

    # So small a model learns the few facts with the shortest answers.
    short = sorted(range(40), key=lambda i: len(rows[i]['messages'][1]['content']))[:FACTS]
    some = [rows[i] for i in range(200) if i % 40 in short]
    chat = folder.write('chat.jsonl', ''.join(json.dumps(row) + '\n' for row in some))

    # In one line, as in the page; held out is every fact in words that were not trained on.
    one_line = ['train', '--model', at('model'), '--data', chat, '--method', 'lora', '--seq', 192, '--batch', 4, '--rank', 64,
                '--set', 'data.eval_fraction=0.2', '--set', 'memory.device=cpu', '--set', 'model.precision=32-true',
                '--set', 'model.adapters.targets=[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]']
    run(*one_line, '--steps', 1, '--set', 'training.eval_every=1', '--set', 'training.optimizer.lr=0', '--out', at('before')).expect(0, 'held-out loss')
    trained = run(*one_line, '--epochs', EPOCHS, '--set', 'training.eval_every=80', '--set', 'training.optimizer.lr=2e-3', '--out', at('run'))
    trained.expect(0, 'device: ', 'adapters', 'held-out loss')
    check(trained.err.startswith('device: ') and 'fits: ' in trained.err and 'lora, rank 64' in trained.err, f'the plan comes first: {trained.err}')
    _, (before,) = losses(at('before'))
    steps, evals = losses(at('run'))
    print(f'held out: {before:.4f} before, {evals[-1]:.4f} after; trained: {steps[0]:.4f} to {steps[-1]:.4f}')
    check(evals[-1] < 0.7 * before, f'loss on answers to other questions: {before} -> {evals[-1]}')
    check(steps[-1] < 0.7 * steps[0], f'loss on answers: {steps[0]} -> {steps[-1]}')

    # Answers end by themselves, and are others than before.
    questions = ['--chat', '--prompt', some[0]['messages'][0]['content'], '--prompt', some[1]['messages'][0]['content'], '--max-tokens', 150, '--json']
    answers = run('generate', at('run'), *questions).expect(0).json()['answers']
    untrained = run('generate', at('model'), *questions).expect(0).json()['answers']
    print([answer['text'] for answer in answers], [answer['text'][:60] for answer in untrained])
    check(all(answer['end'] == 'end_token' for answer in answers), f'{answers}')
    check(all(one['text'] != other['text'] for one, other in zip(answers, untrained)), 'it answers otherwise than before')

    # One model for other programs.
    run('merge', at('run'), '--out', at('merged')).expect(0, 'merged')
    for name in ('config.json', 'model.safetensors', 'tokenizer.json', 'chat_template.jinja'):
        check(os.path.exists(at('merged/' + name)), f'{name} is in the merged folder')
    merged = run('generate', at('merged'), *questions).expect(0).json()['answers']
    check([answer['text'] for answer in merged] == [answer['text'] for answer in answers], 'merged, it says the same')
finish()

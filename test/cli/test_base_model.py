#!/usr/bin/env python3
"""Checkpoints of a model's body alone (LlamaModel, BertModel), and folders that train could not load: plan refuses them too."""
import json
import os
import shutil

from safetensors_file import read, write
from support import Folder, TINY, check, finish, run

BERT = """\
model:
  family: bert
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 300, max_position_embeddings: 32 }
data: { source: synthetic, sequence_length: 16 }
training: { batch_size: 2, steps: 2 }
"""
SMALL = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=16', '--steps', 1]
PLAN = SMALL[:-2]

with Folder() as folder:
    def at(name):
        return os.path.join(folder.path, name)

    def newest(out):
        return os.path.join(at(out), sorted(name for name in os.listdir(at(out)) if name.startswith('generation'))[-1])

    def checkpoint(name, source, tensors, **config):
        folder.write(f'{name}/config.json', json.dumps(dict(json.load(open(os.path.join(source, 'config.json'), encoding='utf-8')), **config)))
        write(at(f'{name}/model.safetensors'), tensors)
        return at(name)

    for family, recipe, body, architecture, head in (('llama', TINY, 'model.', 'LlamaModel', 'lm_head.weight'),
                                                     ('bert', BERT, 'bert.', 'BertModel', 'cls.predictions.bias')):
        run('train', folder.write(family + '.yaml', recipe), '--steps', 1, '--out', at(family)).expect(0)
        whole = newest(family)
        tensors = read(os.path.join(whole, 'model.safetensors'))
        bare = {name[len(body):]: tensor for name, tensor in tensors.items() if name.startswith(body)}
        check(len(bare) < len(tensors), 'there is a head')
        base = checkpoint(family + '-body', whole, bare, architectures=[architecture])
        run('plan', base, *PLAN).expect(0)
        out = at(family + '-on')
        run('train', base, *SMALL, '--set', 'training.optimizer.lr=0', '--set', 'training.optimizer.weight_decay=0', '--out', out).expect(0, 'begin', 'fresh', head)
        saved = read(os.path.join(newest(family + '-on'), 'model.safetensors'))
        check(list(saved) == list(tensors), 'names of whole models')
        check(all(saved[name] == tensors[name] for name in tensors if name.startswith(body)), 'the body is loaded')
        check(saved[head] != tensors[head] or family == 'bert', 'the head is another one')
        check(json.load(open(os.path.join(newest(family + '-on'), 'config.json'), encoding='utf-8'))['architectures'][0].endswith('LM'), 'a whole model')
        run('train', base, *SMALL[:-1], 2, '--set', 'training.optimizer.lr=0', '--set', 'training.optimizer.weight_decay=0', '--out', out,
            '--resume').expect(0, 'resumed')
        # A fresh head that is frozen would be of no use; trained beside adapters it is fine.
        for command in (['plan', base, *PLAN], ['train', base, *SMALL, '--out', at('x')]):
            run(*command, '--set', 'model.adapters={kind: lora}').expect(5, 'frozen', 'train')
        run('train', base, *SMALL, '--set', 'model.adapters={kind: lora}', '--set', f'model.train=[{head.split(".")[0]}]', '--out', at(family + '-lora')).expect(0, 'fresh')
        # A head that is missing from a whole model is an error as before; so are bodies that lack something.
        checkpoint('headless', whole, {name: tensor for name, tensor in tensors.items() if name != head})
        checkpoint('gap', whole, {name: tensor for name, tensor in bare.items() if '1' not in name}, architectures=[architecture])
        for name in ('headless', 'gap'):
            run('plan', at(name), *PLAN).expect(5, 'not in the checkpoint')
            run('train', at(name), *SMALL, '--out', at('x')).expect(5, 'not in the checkpoint')

    # What train cannot load, plan refuses: another shape, another type, tensors too many, formats that are not read.
    whole = newest('llama')
    tensors = read(os.path.join(whole, 'model.safetensors'))
    kind, shape, data = tensors['model.norm.weight']
    checkpoint('shape', whole, dict(tensors, **{'model.norm.weight': (kind, [shape[0] // 2], data[:len(data) // 2])}))
    checkpoint('type', whole, dict(tensors, **{'model.norm.weight': ('I32', shape, data)}))
    checkpoint('more', whole, dict(tensors, **{'model.layers.9.x': (kind, shape, data)}))
    for name, words in (('shape', 'has the shape'), ('type', 'stored as I32'), ('more', 'not in the model')):
        run('plan', at(name), *PLAN).expect(5, words)
        run('train', at(name), *SMALL, '--out', at('x')).expect(5, words)
    run('plan', at('shape'), *PLAN, '--set', 'model.config.hidden_size=64').expect(5, 'has the shape')
    shutil.copytree(whole, at('pickled'))
    os.remove(at('pickled/model.safetensors'))
    run('plan', at('pickled'), *PLAN).expect(0)  # config.json alone can be planned
    for name in ('pytorch_model.bin', 'pytorch_model-00001-of-00002.bin', 'consolidated.00.pth', 'model.pt'):
        folder.write('pickled/' + name, 'x')
        run('plan', at('pickled'), *PLAN).expect(5, name, 'python -c', 'save_pretrained')
        run('train', at('pickled'), *SMALL, '--out', at('x')).expect(5, name, 'save_pretrained')
        os.remove(at('pickled/' + name))
    folder.write('pickled/training_args.bin', 'x')
    run('plan', at('pickled'), *PLAN).expect(0)
    check(not os.path.exists(at('x')), 'nothing is left of what was refused')

finish()

#!/usr/bin/env python3
"""Tensors of a checkpoint that the graph does not have (poolers, heads for other tasks) are in what a run saves, byte for byte."""
import json
import os
import shutil
import signal
import struct
import subprocess
import time

from safetensors_file import read, write
from support import Folder, HEADROOM, check, finish, run

BERT = """\
model:
  family: bert
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 300, max_position_embeddings: 32 }
data: { source: synthetic, sequence_length: 16 }
training: { batch_size: 2, steps: 1 }
"""
SMALL = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=16']


def noise(count):
    return bytes((i * 37 + i // 251) % 251 for i in range(count))


# In several types, one of them that weights cannot have; the pooler is larger than what is copied at a time.
KEPT = {'bert.pooler.dense.weight': ('BF16', [1024, 1024], noise(2 << 20)), 'bert.pooler.dense.bias': ('F16', [32], noise(64)),
        'cls.seq_relationship.weight': ('F32', [2, 32], struct.pack('<64f', *range(64))), 'cls.seq_relationship.bias': ('I64', [2], noise(16))}
AGAIN = {'bert.embeddings.position_ids': ('I64', [1, 32], noise(256)), 'cls.predictions.decoder.bias': ('F32', [300], bytes(1200))}

with Folder() as folder:
    def at(name):
        return os.path.join(folder.path, name)

    def newest(out):
        return os.path.join(at(out), sorted(name for name in os.listdir(at(out)) if name.startswith('generation'))[-1])

    def saved(out, name='model.safetensors'):
        return read(os.path.join(newest(out), name))

    def has_kept(tensors, what, kept=None):
        kept = KEPT if kept is None else kept
        for name, tensor in kept.items():
            check(tensors.get(name) == tensor, f'{what}: {name} is as it was')
        check(not set(AGAIN) & set(tensors), f'{what}: what is said again is left out')

    run('train', folder.write('bert.yaml', BERT), '--out', at('fresh')).expect(0)
    plain = saved('fresh')
    config = json.load(open(os.path.join(newest('fresh'), 'config.json'), encoding='utf-8'))

    def checkpoint(name, tensors, **changed):
        folder.write(f'{name}/config.json', json.dumps({**config, **changed}))
        write(at(f'{name}/model.safetensors'), tensors)
        return at(name)

    whole = checkpoint('whole', {**plain, **KEPT, **AGAIN}, architectures=['BertForPreTraining'])
    run('train', whole, *SMALL, '--steps', 1, '--out', at('on')).expect(0)
    tensors = saved('on')
    has_kept(tensors, 'full training')
    check(set(tensors) == set(plain) | set(KEPT), f'all of the model, and nothing else: {sorted(set(tensors) ^ set(plain))}')
    check(tensors['bert.embeddings.word_embeddings.weight'] != plain['bert.embeddings.word_embeddings.weight'], 'it was trained')

    # They are kept when a run goes on, and when a run begins with what another has saved or ended with.
    run('train', whole, *SMALL, '--steps', 2, '--out', at('on'), '--resume').expect(0, 'resumed')
    has_kept(saved('on'), 'resumed')
    run('train', newest('on'), *SMALL, '--steps', 1, '--out', at('again')).expect(0)
    has_kept(saved('again'), 'from a checkpoint of a run')
    run('train', whole, *SMALL, '--steps', 1, '--begin', at('on'), '--out', at('begun')).expect(0)
    has_kept(saved('begun'), '--begin')
    # Checkpoints of before have none of them and are gone on with.
    run('train', checkpoint('bare', plain), *SMALL, '--steps', 1, '--out', at('old')).expect(0)
    write(at('bare/model.safetensors'), {**plain, **KEPT})
    run('train', at('bare'), *SMALL, '--steps', 2, '--out', at('old'), '--resume').expect(0, 'resumed')
    has_kept(saved('old'), 'a run that was begun without')
    # Without the original they would be lost.
    write(at('bare/model.safetensors'), plain)
    run('train', at('bare'), *SMALL, '--steps', 3, '--out', at('old'), '--resume').expect(5, 'put the weights back')

    # The body alone calls them otherwise than the whole model that is saved.
    body = {name[5:]: tensor for name, tensor in {**plain, **KEPT}.items() if name.startswith('bert.')}
    run('train', checkpoint('body', body, architectures=['BertModel']), *SMALL, '--steps', 1, '--out', at('from-body')).expect(0, 'fresh')
    has_kept(saved('from-body'), 'the body alone', {name: tensor for name, tensor in KEPT.items() if name.startswith('bert.')})

    # From shards.
    folder.write('shards/config.json', json.dumps(config))
    parts = {'model-00001-of-00002.safetensors': plain, 'model-00002-of-00002.safetensors': KEPT}
    for name, content in parts.items():
        write(at('shards/' + name), content)
    folder.write('shards/model.safetensors.index.json',
                 json.dumps({'metadata': {}, 'weight_map': {tensor: name for name, content in parts.items() for tensor in content}}))
    run('train', at('shards'), *SMALL, '--steps', 1, '--out', at('from-shards')).expect(0)
    has_kept(saved('from-shards'), 'shards')

    # What is less than a model has nothing beside it; merging takes them from the base.
    run('train', whole, *SMALL, '--steps', 1, '--set', 'model.adapters={kind: lora}', '--out', at('lora')).expect(0)
    check(not set(KEPT) & set(saved('lora', 'adapter_model.safetensors')), 'adapters alone')
    check(not os.path.exists(os.path.join(newest('lora'), 'model.safetensors')), 'adapters alone')
    run('train', whole, *SMALL, '--steps', 1, '--set', 'model.train=[cls]', '--out', at('some')).expect(0)
    check(not set(KEPT) & set(saved('some')), 'some weights')
    for out in ('lora', 'some'):
        run('merge', at(out), '--out', at(out + '-merged')).expect(0)
        merged = read(at(out + '-merged/model.safetensors'))
        check(all(merged.get(name) == tensor for name, tensor in KEPT.items() if tensor[0] != 'I64'), f'{out}: merged with the base')

    # Room for them is counted before the run begins: the limit of file sizes is told with the size that the file has.
    size = os.path.getsize(os.path.join(newest('on'), 'model.safetensors'))
    run('train', whole, *SMALL, '--steps', 1, '--out', at('limited'), limit_bytes=size - 1).expect(1, f'a file of {size} bytes')
    check(not os.path.exists(at('limited')), 'nothing is begun')

    # An original that is cut off while the run goes on takes nothing of what was trained with it.
    shutil.copytree(whole, at('cut'))
    child = subprocess.Popen([HEADROOM, 'train', at('cut'), *SMALL, '--steps', '1000000', '--out', at('long')], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    log = at('long/log.jsonl')
    while child.poll() is None and not (os.path.exists(log) and '"loss"' in open(log, encoding='utf-8').read()):
        time.sleep(0.05)
    os.truncate(at('cut/model.safetensors'), 1000)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=120)
    check(child.returncode == 130 and 'model.safetensors is saved without bert.pooler.dense.bias' in told, f'{child.returncode}: {told}')
    check(set(saved('long')) == set(plain), 'what was trained is saved')

finish()

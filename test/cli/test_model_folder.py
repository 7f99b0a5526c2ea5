#!/usr/bin/env python3
"""A checkpoint's folder as people have it: trained on its own tokens, and saved with all that its config.json says."""
import json
import os
import shutil

from support import Folder, ROOT, check, finish, run

LEVEL = os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level')
TEXT = os.path.join(ROOT, 'recipes', 'kjv.txt')
SMALL = ['--set', 'training.batch_size=1', '--set', 'data.sequence_length=32', '--steps', '2']


def saved(run_folder):
    return os.path.join(run_folder, 'generation-00000002')


with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = os.path.join(folder.path, 'cache')
    model = os.path.join(folder.path, 'model')
    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--set', 'model.config.vocab_size=420', '--out', os.path.join(folder.path, 'first'),
        *SMALL).expect(0)
    shutil.copytree(saved(os.path.join(folder.path, 'first')), model)
    config = json.load(open(os.path.join(model, 'config.json'), encoding='utf-8'))
    del config['torch_dtype']
    config.update({'eos_token_id': [2, 3], 'bos_token_id': 1, 'dtype': 'bfloat16', 'transformers_version': '5.0', 'own': {'a': [1]}})
    json.dump(config, open(os.path.join(model, 'config.json'), 'w', encoding='utf-8'))

    # Planning needs no data, training does; a vocabulary of its own needs its tokenizer.
    run('plan', model).expect(0)
    run('train', model, '--out', os.path.join(folder.path, 'none')).expect(2, 'no data', '--data')
    data = ['--set', f'data.path={TEXT}', *SMALL]
    run('train', model, *data, '--out', os.path.join(folder.path, 'none')).expect(5, 'no tokenizer', 'data.tokenizer', '`bytes`')
    check(not os.path.exists(os.path.join(folder.path, 'none')), 'a refused run leaves no folder')
    run('train', model, *data, '--set', 'data.tokenizer=bytes', '--out', os.path.join(folder.path, 'bytes')).expect(0)

    for name in ['tokenizer.json', 'tokenizer_config.json']:
        shutil.copy(os.path.join(LEVEL, name), model)
    own = os.path.join(folder.path, 'own')
    run('train', model, *data, '--set', 'model.config.rms_norm_eps=0.5', '--out', own).expect(0)
    kept = json.load(open(os.path.join(saved(own), 'config.json'), encoding='utf-8'))
    expected = dict(config, dtype='float32', rms_norm_eps=0.5)
    check(kept == expected, f'{kept}\n{expected}')
    check(list(kept) == list(config), 'keys in their order')

    # What other programs need of a model's folder is in the checkpoint, byte for byte; with adapters only the tokenizer.
    def companions(folder):
        return {name: open(os.path.join(folder, name), 'rb').read() for name in sorted(os.listdir(folder))
                if not name.endswith('.safetensors') and name not in ('config.json', 'manifest.json', 'adapter_config.json', 'training')}
    beside = {'generation_config.json': b'{"eos_token_id": [2, 3]}', 'chat_template.jinja': b'{{ messages }}', 'special_tokens_map.json': b'{}',
              'added_tokens.json': b'{}', 'chat_template.json': b'{}', 'own.tiktoken': b'IQ== 0\n', 'merges.txt': b'#version: 0.2\n'}
    for name, text in beside.items():
        folder.write(f'model/{name}', text)
    folder.write('model/README.md', 'not needed')
    wanted = {name: text for name, text in companions(model).items() if name != 'README.md'}
    check(len(wanted) == 9, f'{sorted(wanted)}')
    check(companions(saved(own)) == {k: v for k, v in wanted.items() if k not in beside}, 'those that were there')
    whole = os.path.join(folder.path, 'whole')
    run('train', model, *data, '--out', whole).expect(0)
    check(companions(saved(whole)) == wanted, f'{sorted(companions(saved(whole)))}')
    lora = os.path.join(folder.path, 'lora')
    run('train', model, *data, '--method', 'lora', '--out', lora).expect(0)
    check(companions(saved(lora)) == {k: v for k, v in wanted.items() if k != 'generation_config.json'}, f'{sorted(companions(saved(lora)))}')
    # Programs that load models list *.safetensors beside config.json; adapters have none, and name their base from anywhere.
    def weights(folder):
        return [name for name in os.listdir(folder) if name.endswith(('.safetensors', '.bin', '.pt', '.pth', '.gguf'))]
    check(weights(saved(whole)) == ['model.safetensors'], f'{weights(saved(whole))}')
    check(weights(saved(lora)) == ['adapter_model.safetensors'], f'{weights(saved(lora))}')
    check(not os.path.exists(os.path.join(saved(lora), 'config.json')), 'adapters are no model')
    near = os.path.join(folder.path, 'near')
    run('train', 'model', *data, '--method', 'lora', '--out', near, cwd=folder.path).expect(0)
    adapter = json.load(open(os.path.join(saved(near), 'adapter_config.json'), encoding='utf-8'))
    check(adapter['base_model_name_or_path'] == os.path.realpath(model), f'{adapter}')
    check(adapter['task_type'] == 'CAUSAL_LM' and adapter['auto_mapping'] is None, f'{adapter}')
    # A tokenizer that the recipe names is the one that is copied, under the name that models' folders have for it; with bytes there is none.
    other = folder.write('other/words.json', open(os.path.join(LEVEL, 'tokenizer.json'), 'rb').read())
    folder.write('other/tokenizer_config.json', '{}')
    named = os.path.join(folder.path, 'named')
    run('train', model, *data, '--set', f'data.tokenizer={other}', '--out', named).expect(0)
    check(companions(saved(named)) == {'tokenizer.json': wanted['tokenizer.json'], 'tokenizer_config.json': b'{}',
                                       'generation_config.json': beside['generation_config.json']}, f'{companions(saved(named))}')
    check(companions(saved(os.path.join(folder.path, 'bytes'))) == {}, 'bytes need no tokenizer')
    # The folder has gained files since `own` was begun, and loses them again: neither stands in the way of --resume.
    more = [*data[:-1], '3', '--set', 'model.config.rms_norm_eps=0.5', '--out', own, '--resume']
    shutil.copytree(own, own + '-copy')
    run('train', model, *more[:-2], own + '-copy', '--resume').expect(0)
    check(companions(os.path.join(own + '-copy', 'generation-00000003')) == wanted, 'files that are new')
    run('train', model, *[*data[:-1], '4', '--set', 'model.config.rms_norm_eps=0.5'], '--out', own + '-copy', '--resume').expect(0)
    kept = sorted(name for name in os.listdir(own + '-copy') if name.startswith('generation-'))
    check(kept == ['generation-00000003', 'generation-00000004'], f'old checkpoints are removed whole: {kept}')

    # Another tokenizer between stop and resume is found, also where the text is the same.
    tokenizer = os.path.join(model, 'tokenizer.json')
    text = open(tokenizer, encoding='utf-8').read()
    open(tokenizer, 'w', encoding='utf-8').write(text + '\n')
    more = [*data[:-1], '3', '--set', 'model.config.rms_norm_eps=0.5', '--out', own, '--resume']
    run('train', model, *more).expect(2, 'not what this run was trained on')
    open(tokenizer, 'w', encoding='utf-8').write(text)
    run('train', model, *more).expect(0)

finish()

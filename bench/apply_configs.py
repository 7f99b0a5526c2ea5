#!/usr/bin/env python3
"""headroom apply on folders of public configs (checkouts of torchtune, axolotl, LLaMA-Factory, or any others): whether what it
writes is true. Every file is copied, applied with --auto for each GPU, and then, where something was written:

  fits       the written text alone, without --auto and without anything that was chosen, is planned again and fits
  chosen     only batch, accumulation and checkpointing were changed, which are the search's
  untouched  all other bytes are as before, and --revert gives the file back
  known      every key that was written or put in (--insert) is a field of that trainer's parser, which accepts the file
             wherever it did before (axolotl's schema and LLaMA-Factory's arguments, imported from the checkouts)

and where nothing was: whether the refusal has a place, a reason and a remedy. A config goes with the base model that it names
where test/model/configs has it or torchtune's builders have its sizes, else with a stand-in, which is counted apart. Needs
PyYAML.

    bench/apply_configs.py CHECKOUT... [--gpus rtx-3060-12gb,4090,H200] [--every N] [--seq 2048] [--jobs N] [--json FILE]
"""
import argparse
import ast
import collections
import contextlib
import dataclasses
import hashlib
import io
import json
import logging
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, 'test', 'model', 'configs')
HEADROOM = os.environ.get('HEADROOM', os.path.join(ROOT, 'build', 'headroom'))
CHOSEN = {'training.batch_size', 'training.gradient_accumulation', 'training.effective_batch', 'memory.checkpoint'}
STAND_IN = 'Llama-3.2-1B'
PARSERS = None

# Models that configs name beyond those: type, width, width between, layers, heads, of keys, words, same head (public facts).
NAMED = {
    'CodeLlama-7b': ('llama', 4096, 11008, 32, 32, 32, 32016, False),
    'CodeLlama-13b': ('llama', 5120, 13824, 40, 40, 40, 32016, False),
    'CodeLlama-34b': ('llama', 8192, 22016, 48, 64, 8, 32000, False),
    'open_llama_3b_v2': ('llama', 3200, 8640, 26, 32, 32, 32000, False),
    'llama-7b': ('llama', 4096, 11008, 32, 32, 32, 32000, False),
    'xgen-7b': ('llama', 4096, 11008, 32, 32, 32, 51200, False),
    'Yi-34B': ('llama', 7168, 20480, 60, 56, 8, 64000, False),
    'SmolLM2-135M': ('llama', 576, 1536, 30, 9, 3, 49152, True),
    'Llama-3.2-3B': ('llama', 3072, 8192, 28, 24, 8, 128256, True),
    'Qwen2.5-14B': ('qwen2', 5120, 13824, 48, 40, 8, 152064, False),
    'Qwen3-4B': ('qwen3', 2560, 9728, 36, 32, 8, 151936, True),
    'Ministral-8B': ('mistral', 4096, 12288, 36, 32, 8, 131072, False),
}
# Others' names of the same sizes.
SAME = {'TinyLlama_v1.1': 'TinyLlama-1.1B', 'llama3_3_70b': 'Llama-3.1-70B', 'Llama-3.3-70B': 'Llama-3.1-70B',
        'Sparse-Llama-3.1-8B': 'Llama-3.1-8B', 'Magistral-Small-2506': 'Mistral-Small-24B', 'Magistral-Small-2507': 'Mistral-Small-24B',
        'Devstral-Small-2507': 'Mistral-Small-24B', 'cogito-v1-preview-llama-3B': 'Llama-3.2-3B',
        'cogito-v1-preview-qwen-14B': 'Qwen2.5-14B', 'DeepCoder-14B': 'Qwen2.5-14B'}


def plain(name):
    return re.sub(r'[^a-z0-9]', '', name.lower())


FAMILIES = {'llama2': 'llama', 'llama3': 'llama', 'llama3_1': 'llama', 'llama3_2': 'llama', 'llama3_3': 'llama',
            'mistral': 'mistral', 'qwen2': 'qwen2', 'qwen2_5': 'qwen2', 'qwen3': 'qwen3'}
SIZES = {'vocab_size': 'vocab_size', 'num_layers': 'num_hidden_layers', 'num_heads': 'num_attention_heads', 'head_dim': 'head_dim',
         'num_kv_heads': 'num_key_value_heads', 'embed_dim': 'hidden_size', 'intermediate_dim': 'intermediate_size',
         'max_seq_len': 'max_position_embeddings', 'tie_word_embeddings': 'tie_word_embeddings'}


def shapes(folders, out):
    """Folders with a config.json for each builder of torchtune whose family headroom has, from the sizes in its source."""
    for folder in folders:
        for family, kind in FAMILIES.items():
            source = os.path.join(folder, 'torchtune', 'models', family, '_model_builders.py')
            if not os.path.exists(source):
                continue
            with open(source, encoding='utf-8') as file:
                tree = ast.parse(file.read())
            for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and 'lora' not in node.name):
                calls = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and isinstance(node.value, ast.Call)]
                numbers = {key.arg: key.value.value for call in calls for key in call.keywords if isinstance(key.value, ast.Constant)}
                config = {SIZES[key]: value for key, value in numbers.items() if key in SIZES and value is not None}
                if {'hidden_size', 'num_hidden_layers', 'vocab_size'} <= config.keys():
                    config |= {'model_type': kind, 'max_position_embeddings': max(config.get('max_position_embeddings', 0), 32768)}
                    if family == 'llama3_2':
                        config['tie_word_embeddings'] = True
                    place = os.path.join(out, re.sub(r'_(instruct|base)$', '', function.name))
                    os.makedirs(place, exist_ok=True)
                    with open(os.path.join(place, 'config.json'), 'w', encoding='utf-8') as file:
                        json.dump(config, file)


def named(out):
    """The folders of NAMED and SAME."""
    for name, (kind, width, between, layers, heads, of_keys, words, tied) in NAMED.items():
        config = {'model_type': kind, 'hidden_size': width, 'intermediate_size': between, 'num_hidden_layers': layers,
                  'num_attention_heads': heads, 'num_key_value_heads': of_keys, 'vocab_size': words, 'tie_word_embeddings': tied,
                  'max_position_embeddings': 32768, **({'head_dim': 128} if kind == 'qwen3' else {})}
        os.makedirs(os.path.join(out, name), exist_ok=True)
        with open(os.path.join(out, name, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(config, file)
    for name, same in SAME.items():
        if not os.path.exists(os.path.join(out, name)):
            os.symlink(os.path.join(out if same in NAMED else MODELS, same), os.path.join(out, name))


def model_of(config, made):
    """The folder of the model that a config names, and whether it is that one."""
    name = config.get('base_model') or config.get('model_name_or_path') or ''
    component = config.get('model', {}).get('_component_', '') if isinstance(config.get('model'), dict) else ''
    name = plain(str(name).rsplit('/', maxsplit=1)[-1]) or plain(re.sub(r'^.*\.(q?lora_)?', '', component))
    name = re.sub(r'^meta(?=llama)', '', name)
    folders = [(plain(folder).replace('v01', ''), os.path.join(where, folder)) for where in (MODELS, made) for folder in os.listdir(where)]
    for known, folder in sorted(folders, key=lambda one: -len(one[0])):
        if os.path.isdir(folder) and known and name.startswith(known) and not re.match(r'vl|vision|moe|a[0-9]+b', name[len(known):]):
            return folder, True
    return os.path.join(MODELS, STAND_IN), False


def leaves(value, path=''):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f'{path}.{key}' if path else str(key))
    else:
        yield path, value


def run(*arguments):
    result = subprocess.run([HEADROOM, 'apply', *arguments, '--json'], capture_output=True, text=True, check=False)
    try:
        return result.returncode, json.loads(result.stdout)
    except ValueError:
        return result.returncode, {'error': {'message': result.stderr}}


class Parsers:
    """The trainers' own parsers, from the checkouts, where what they import is there; and the fields of their classes."""

    def __init__(self, folders):
        self.known, self.parse = collections.defaultdict(set), {}
        for folder in folders:
            sources = os.path.join(folder, 'src')
            for kind, below in (('axolotl', 'axolotl/utils/schemas'), ('llama-factory', 'llamafactory/hparams')):
                if not os.path.isdir(os.path.join(sources, below)):
                    continue
                for path, _, names in os.walk(os.path.join(sources, below)):
                    for name in (name for name in names if name.endswith('.py')):
                        with open(os.path.join(path, name), encoding='utf-8') as source:
                            tree = ast.parse(source.read())
                        self.known[kind] |= {node.target.id for node in ast.walk(tree)
                                             if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
                sys.path.insert(0, sources)
        try:
            from transformers import HfArgumentParser, TrainingArguments
            self.known['llama-factory'] |= {field.name for field in dataclasses.fields(TrainingArguments)}
            from llamafactory.hparams.parser import _TRAIN_ARGS
            # there need be no GPU here; versions of transformers differ in their fields, and those that were written are looked up
            self.parse['llama-factory'] = lambda config: HfArgumentParser(_TRAIN_ARGS).parse_dict(
                config | {'use_cpu': True}, allow_extra_keys=True)
        except ImportError as why:
            print('without the parser of LLaMA-Factory:', why)
            self.known.pop('llama-factory', None)
        try:
            from axolotl.utils.schemas.config import AxolotlInputConfig
            self.parse['axolotl'] = lambda config: AxolotlInputConfig(**config)
        except ImportError as why:
            print('without the schema of axolotl:', why)

    def accepts(self, kind, text):
        """None where there is no parser, else why not, empty where it does."""
        if kind not in self.parse:
            return None
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                self.parse[kind](yaml.safe_load(text))
            return ''
        except Exception as why:  # whatever a parser throws is a no
            return f'{type(why).__name__}: {why}'


class Count:
    def __init__(self, parsers):
        self.parsers = parsers
        self.accepted = collections.Counter()
        self.kinds = collections.defaultdict(collections.Counter)
        self.wrong, self.refusals = [], collections.Counter()

    def add(self, other):
        """What another process has counted."""
        accepted, kinds, wrong, refusals = other
        self.accepted.update(accepted)
        for kind, outcomes in kinds.items():
            self.kinds[kind].update(outcomes)
        self.wrong += wrong
        self.refusals.update(refusals)

    def bad(self, what, where, why):
        self.wrong.append((what, where, str(why)[:300]))

    def written(self, case, path, before, answer, again):
        kind = answer['files'][0]['map']
        keys = [key for key in answer['files'][0]['keys'] if key['outcome'] in ('written', 'inserted')]
        with open(path, 'rb') as file:
            after = file.read()
        old, new = dict(leaves(yaml.safe_load(before))), dict(leaves(yaml.safe_load(after)))
        differ = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        if differ != {key['key'] for key in keys}:
            self.bad('untouched', case, f'{differ} differ, {keys} are told')
        lines = [(a, b) for a, b in zip(before.splitlines(), after.splitlines()) if a != b]
        if not any(key['outcome'] == 'inserted' for key in keys) and (len(lines) != len(keys) or len(before.splitlines()) != len(after.splitlines())):
            self.bad('untouched', case, lines)
        for key in keys:
            if key['setting'] not in CHOSEN:
                self.bad('chosen', case, key)
            known = self.parsers.known.get(kind)
            if known and key['key'].split('.')[0] not in known:
                self.bad('known', case, key)
        now, then = self.parsers.accepts(kind, after), self.parsers.accepts(kind, before)
        if now is not None and keys:
            self.accepted[f'{kind}: {"accepted" if not now else "refused as before" if then == now else "refused"}'] += 1
            if now and not then:
                self.bad('known', case, now)
        code, plan = again()
        held = plan.get('held')
        if code != 0 or not held or held['bytes'] + held['margin_bytes'] > held['budget_bytes']:
            self.bad('fits', case, plan)
        if code == 0 and any(file['changed'] for file in plan['files']):
            self.bad('fits', case, 'planned again it would be changed')
        back = subprocess.run([HEADROOM, 'apply', '--revert', '--to', path], capture_output=True, check=False)
        with open(path, 'rb') as file:
            if keys and (back.returncode != 0 or file.read() != before):
                self.bad('untouched', case, 'not as before --revert')

    def refused(self, case, answer):
        error = answer.get('error', {})
        if not all(error.get(part) for part in ('place', 'message', 'remedy')):
            self.bad('refusal', case, error)
        text = error.get('message', '')
        self.refusals[re.sub(r"[0-9]+|'.*?'|^\S+: .*?(?= is | makes |: )", '…', text)[:90]] += 1


def config_try(count, path, shown, text, gpu, arguments):
    config = yaml.safe_load(text)
    folder, named = model_of(config, arguments.made)
    target = os.path.join(os.path.dirname(path), 'run' + os.path.splitext(path)[1])
    call = [folder, '--gpu', gpu, '--to', target]
    length = []
    for _ in range(2):
        with open(target, 'wb') as file:
            file.write(text)
        code, answer = run(*call, '--auto', *arguments.flags, *length)
        error = answer.get('error', {}) if isinstance(answer.get('error'), dict) else {}
        open_length = re.search(r'no limit|not said here', error.get('message', ''))
        if code != 5 or not open_length or length:
            break
        count.kinds['length not said']['refused'] += 1
        length = ['--seq', str(arguments.seq)]
    kind = answer['files'][0]['map'] if code == 0 else guess(config)
    case = f'{shown} ({os.path.basename(folder)}, {gpu})'
    outcome = {0: 'written', 3: 'does not fit'}.get(code, 'refused')
    if code == 0 and not answer['files'][0]['changed']:
        outcome = 'right as it is'
    count.kinds[f'{kind}{"" if named else ", stand-in model"}'][outcome] += 1
    if code == 0:
        count.written(case, target, text, answer, lambda: run(*call, '--dry-run', *length))
    else:
        with open(target, 'rb') as file:
            if file.read() != text or os.path.exists(target + '.backup'):
                count.bad('untouched', case, f'exit {code}')
        if code == 5:
            count.refused(case, answer)
        elif code != 3:
            count.bad('exit', case, f'{code}: {answer}')
    for end in ('', '.backup', '.backup.record'):
        if os.path.exists(target + end):
            os.remove(target + end)


def guess(config):
    if 'base_model' in config:
        return 'axolotl'
    if '_component_' in str(config):
        return 'torchtune'
    return 'llama-factory' if {'cutoff_len', 'template', 'stage', 'model_class'} & config.keys() else 'others'


def one_try(task):
    """A config for all GPUs; what was counted."""
    arguments, place, path, name, text = task
    count = Count(PARSERS)
    os.makedirs(place)
    for gpu in arguments.gpus.split(','):
        config_try(count, os.path.join(place, name), path, text, gpu, arguments)
    shutil.rmtree(place)
    return count.accepted, dict(count.kinds), count.wrong, count.refusals


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('folders', nargs='+')
    parser.add_argument('--gpus', default='rtx-3060-12gb,4090,H200')
    parser.add_argument('--every', type=int, default=1, help='every Nth config only')
    parser.add_argument('--seq', type=int, default=2048, help='for configs that do not limit the length')
    parser.add_argument('--insert', dest='flags', action='store_const', const=['--insert'], default=[])
    parser.add_argument('--jobs', type=int, default=1, help='processes')
    parser.add_argument('--json')
    arguments = parser.parse_args()
    configs = []
    for folder in arguments.folders:
        for path, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                if not name.endswith(('.yaml', '.yml')) or '/.' in path or name.startswith('.'):
                    continue
                with open(os.path.join(path, name), 'rb') as file:
                    text = file.read()
                try:
                    config = yaml.safe_load(text)
                except yaml.YAMLError:
                    continue
                if isinstance(config, dict) and guess(config) != 'others':
                    configs.append((os.path.relpath(os.path.join(path, name), folder), name, text))
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # in no order that has to do with what they are, so that those of a run cut short are as good as any
    configs = sorted(configs[::arguments.every], key=lambda config: hashlib.sha256(config[0].encode()).digest())
    with tempfile.TemporaryDirectory() as folder:
        arguments.made = os.path.join(folder, 'models')
        os.makedirs(arguments.made)
        shapes(arguments.folders, arguments.made)
        named(arguments.made)
        count = Count(None)
        global PARSERS  # for processes that are forked: parsers cannot be handed on
        PARSERS = Parsers(arguments.folders)
        with multiprocessing.get_context('fork').Pool(arguments.jobs) as pool:
            tasks = [(arguments, os.path.join(folder, str(number)), *config) for number, config in enumerate(configs)]
            tried = 0
            try:
                for part in pool.imap_unordered(one_try, tasks):
                    tried += 1
                    count.add(part)
                    if part[2]:
                        print('wrong:', part[2], flush=True)
            except KeyboardInterrupt:
                print(f'stopped after {tried} of')
    print(f'{len(configs)} configs, {arguments.gpus}')
    for kind, outcomes in sorted(count.kinds.items()):
        print(f'{kind}: ' + ', '.join(f'{number} {outcome}' for outcome, number in outcomes.most_common()))
    print("\nthe trainers' own parsers, of what was written:", dict(count.accepted))
    print('\nrefusals:')
    for text, number in count.refusals.most_common():
        print(f'{number:5}  {text}')
    print('\nwrong:', dict(collections.Counter(what for what, _, _ in count.wrong)) or 'nothing')
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as file:
            json.dump({'kinds': count.kinds, 'refusals': count.refusals, 'wrong': count.wrong}, file, indent=1)
    return 1 if count.wrong else 0


if __name__ == '__main__':
    raise SystemExit(main())

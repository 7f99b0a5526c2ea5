#!/usr/bin/env python3
"""apply on hundreds of configs: only the intended bytes differ, and --revert gives every byte back."""
import os
import re
import stat
import subprocess

from configs import RECIPE, by_hand, generated
from schema import conforms
from support import ROOT, Folder, check, finish, run


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def show(text):
    return text.decode(errors='replace')


files = 0
with Folder() as folder:
    recipe = folder.write('recipe.yaml', RECIPE)
    # By hand, all layouts of one config at once; the kind is found by what is in the file.
    groups = {}
    for name, kind, before, after in by_hand():
        groups.setdefault((kind, name.split('-', 1)[1] if name.split('-')[0] in
                           ('crlf', 'bom', 'cut', 'all', 'head', 'doc') else name), []).append((name, before, after))
    for (kind, _), members in groups.items():
        paths = [folder.write(name, before) for name, before, _ in members]
        answer = run('apply', recipe, '--json', '--to', *paths).expect(0).json()
        for path, (name, before, after), told in zip(paths, members, answer.get('files', [])):
            files += 1
            check(told['map'] == kind, f'{name}: taken for {told["map"]}')
            now = read(path)
            check(now == after, f'{name}: became\n{show(now)}\ninstead of\n{show(after)}\n{told}')
            check(read(path + '.backup') == before, f'{name}: backup')
        run('apply', '--revert', '--to', *paths).expect(0)
        for path, (name, before, _) in zip(paths, members):
            check(read(path) == before, f'{name}: reverted')
            check(not os.path.exists(path + '.backup'), f'{name}: the backup is the file again')
    # By the generator, one at a time, the kind named.
    for name, kind, before, after, left in generated(140):
        files += 1
        path = folder.write(name, before)
        answer = run('apply', recipe, '--json', '--map', kind, '--to', path).expect(0).json()
        now = read(path)
        check(now == after, f'{name} ({kind}):\n{show(before)}\nbecame\n{show(now)}\ninstead of\n{show(after)}')
        conforms(answer, 'apply', f'apply on {name}')
        told = [key['outcome'] for file in answer.get('files', []) for key in file['keys']]
        check(told.count('left') == left, f'{name}: {told}, {left} were to be left alone\n{show(before)}')
        if before != after:
            run('apply', '--revert', '--quiet', '--to', path).expect(0)
        check(read(path) == before, f'{name}: reverted')
    print(files, 'files')
    check(files >= 300, f'{files} files')
    check(not [name for name in folder.listing() if '.apply-' in name or '.backup' in name], 'nothing is left behind')

# Every kind and all its names in the docs; every kind where the program names them.
with open(os.path.join(ROOT, 'src/recipe/maps.def'), encoding='utf-8') as text:
    kinds = {name: [other for other in others.split(',') if other]
             for name, others in re.findall(r'^HR_MAP\("(.*?)", "(.*?)",', text.read(), flags=re.M)}
with open(os.path.join(ROOT, 'docs/apply.md'), encoding='utf-8') as text:
    rows = re.findall(r'^\| `(\S+)` \| (.*?)\|', text.read(), flags=re.M)
check({name: re.findall(r'`(.*?)`', others) for name, others in rows} == kinds, f'docs/apply.md: {rows}\nmaps.def: {kinds}')
with Folder() as folder:
    recipe, nothing = folder.write('recipe.yaml', RECIPE), folder.write('nothing.yaml', 'a: 1\n')
    help_ = ' '.join(run('apply', '--help').expect(0).out.split())
    check(', '.join(kinds) in help_, f'kinds in the help: {help_}')
    run('apply', recipe, '--to', nothing).expect(5, 'no key of this file', ', '.join(kinds))
    run('apply', recipe, '--map', 'x', '--to', nothing).expect(2, '--map', ', '.join(kinds))

# What a person sees, and what a script does with it.
CONFIG = """\
# conf/config.yaml
data_loader:
  batch_size: 45   # per GPU
  eval_batch: ${data_loader.batch_size}
training:
  trainer:
    precision: "16-mixed"
    accumulate_grad_batches: 5
"""
with Folder() as folder:
    recipe = folder.write('recipe.yaml', RECIPE)
    path = folder.write('conf/config.yaml', CONFIG)
    os.chmod(path, 0o640)
    dry = run('apply', recipe, '--to', path, '--dry-run').expect(0)
    check(read(path) == CONFIG.encode() and not os.path.exists(path + '.backup'), '--dry-run writes nothing')
    check(dry.out.startswith('--- ') and '-  batch_size: 45   # per GPU\n+  batch_size: 4   # per GPU\n' in dry.out, dry.out)
    check('nothing is written' in dry.err and 'refused' not in dry.err, dry.err)
    done = run('apply', recipe, '--to', path).expect(0, '45 -> 4', '.backup', '--revert')
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o640, 'the mode stays')
    check(stat.S_IMODE(os.stat(path + '.backup').st_mode) == 0o640, 'the mode of the backup')
    again = run('apply', recipe, '--to', path).expect(0, '4 already', 'nothing is written')
    applied = read(path)
    back = run('apply', '--revert', '--dry-run', '--to', path).expect(0)
    check('+  batch_size: 45   # per GPU' in back.out and read(path) == applied, 'a dry run of the way back')
    with open(path, 'ab') as file:
        file.write(b'# a zero: \0, and more\n')
    back = run('apply', '--revert', '--dry-run', '--to', path).expect(0)
    check('-# a zero: \0, and more' in back.out and '+  batch_size: 45   # per GPU' in back.out, f'all of it: {back.out!r}')
    # What was changed since is not thrown away: the diff says what would go, and --force does it.
    refused = run('apply', '--revert', '--to', path).expect(5, 'changed after headroom apply wrote it', '--force')
    check('-# a zero: \0, and more' in refused.out and b'# a zero' in read(path), f'refused: {refused.out!r}')
    run('apply', '--revert', '--force', '--to', path).expect(0)
    check(read(path) == CONFIG.encode(), 'forced')
    run('apply', recipe, '--to', path).expect(0)
    check(read(path) == applied, 'applied again')
    # Twice in a row with other values: one --revert takes both back.
    run('apply', recipe, '--set', 'training.batch_size=2', '--to', path).expect(0)
    check(read(path + '.backup') == CONFIG.encode(), 'applied twice, the backup is the first one')
    run('apply', '--revert', '--to', path).expect(0, 'as it was')
    check(read(path) == CONFIG.encode(), 'reverted')
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o640, 'the mode stays')
    run('apply', '--revert', '--to', path).expect(5, 'no backup')
    # A backup of the user's own.
    folder.write('conf/config.yaml.backup', 'mine\n')
    run('apply', recipe, '--to', path).expect(5, 'config.yaml.backup', 'has not made it', 'move it away')
    look = run('apply', recipe, '--to', path, '--dry-run').expect(0, 'would be refused', 'config.yaml.backup', 'move it away')
    check(look.out == dry.out, 'the diff all the same')
    answer = run('apply', recipe, '--to', path, '--dry-run', '--json').expect(0).json()
    conforms(answer, 'apply', 'a refusal')
    check('has not made it' in answer.get('refusal', ''), answer)
    run('apply', '--revert', '--to', path).expect(5, 'none that headroom apply has made')
    check(read(path) == CONFIG.encode() and read(path + '.backup') == b'mine\n', "somebody else's backup stays")
    os.remove(path + '.backup')
    # patch understands the diff.
    if subprocess.run(['patch', '--version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        subprocess.run(['patch', '-s', path], input=dry.out.encode(), check=True)
        check(read(path) == applied, 'the diff applied by patch')

# Hydra: a section in a file of its own, stage files, and a map that adds what headroom does not know.
with Folder() as folder:
    recipe = folder.write('recipe.yaml', RECIPE)
    main = folder.write('conf/config.yaml', 'defaults: [_self_, data_loader: small]\ntraining:\n  trainer: {precision: 32}\n')
    loader = folder.write('conf/data_loader/small.yaml', 'batch_size: 45\nnum_workers: 4\n')
    trainer = folder.write('conf/training/trainer/one.yaml', '# @package training.trainer\naccumulate_grad_batches: 5\n')
    stages = [folder.write(f'conf/text_curriculum/0{i}_stage.yaml', f'name: 0{i}_stage\n\nn_positives: 32\nn_negatives: 24')
              for i in range(1, 6)]
    own = folder.write('map.yaml', 'map: lightning\nvalues: { n_negatives: 16 }\n')
    run('apply', recipe, '--map', own, '--to', main, loader, trainer, *stages).expect(0)
    check(read(main).endswith(b'{precision: bf16-mixed}\n'), read(main))
    check(read(loader) == b'batch_size: 4\nnum_workers: 4\n', read(loader))
    check(read(trainer) == b'# @package training.trainer\naccumulate_grad_batches: 8\n', read(trainer))
    for stage in stages:
        check(read(stage).endswith(b'n_positives: 32\nn_negatives: 16'), read(stage))
    run('apply', '--revert', '--to', main, loader, trainer, *stages).expect(0)
    check(read(stages[0]).endswith(b'n_negatives: 24'), read(stages[0]))

# All stages of a recipe in one call: each file gets the values of its stage, what is common those that all stages fit with.
with Folder() as folder:
    main = folder.write('conf/config.yaml', 'data_loader:\n  batch_size: 4\ntraining:\n  trainer: {accumulate_grad_batches: 4, precision: 16-mixed}\n')
    stages = [folder.write(f'conf/text_curriculum/0{i}_stage.yaml', f'name: 0{i}_stage\nn_positives: 64\nn_negatives: 20\n') for i in (1, 2, 5)]
    embedder = os.path.join(ROOT, 'recipes', '004-24gb.yaml')
    flags = ['--gpu', 'H200', '--gpu-memory', '24GiB', '--target-effective-batch', '256', '--set', 'training.batch_size=auto']
    answer = run('apply', embedder, *flags, '--json', '--to', main, *stages).expect(0).json()
    conforms(answer, 'apply', 'stages')
    check(sorted(os.path.basename(file['path']) for file in answer['files']) == ['01_stage.yaml', '02_stage.yaml', '05_stage.yaml', 'config.yaml'], answer)
    words = re.findall(rb'batch_size: (\d+)|accumulate_grad_batches: (\d+)', read(main))
    check(int(words[0][0]) * int(words[1][1]) == 256 and b'bf16-mixed' in read(main), read(main))
    check([read(stage).split(b'n_')[1:] for stage in stages] == [[b'positives: 32\n', b'negatives: 24\n']] + 2 * [[b'positives: 16\n', b'negatives: 8\n']], 'stages')
    run('apply', '--revert', '--to', main, *stages).expect(0)
    run('apply', embedder, '--gpu', 'H200', '--gpu-memory', '6GiB', '--to', main, *stages).expect(3)
    check(b'batch_size: 4\n' in read(main), 'a stage that does not fit: nothing is written')

# Maps of the user's own; missing keys; a plan that does not fit; wrong calls.
with Folder() as folder:
    recipe = folder.write('recipe.yaml', RECIPE)
    path = folder.write('odd.yaml', 'TRAINING:\n  dtype: float32\n  bs: 1\n  lr: 1\n')
    own = folder.write('map.yaml', """\
training.batch_size: TRAINING.bs
model.precision: { key: TRAINING.dtype, values: { bf16-mixed: bfloat16, 32-true: float32 } }
training.optimizer.lr: TRAINING.lr
training.gradient_accumulation: { key: TRAINING.accumulate, absent: 1 }
""")
    run('apply', recipe, '--map', own, '--to', path).expect(0, 'not written', 'TRAINING.accumulate', 'warning')
    check(read(path) == b'TRAINING:\n  dtype: bfloat16\n  bs: 4\n  lr: 0.001\n', read(path))
    run('apply', recipe, '--map', own, '--to', path, '--insert').expect(0)
    check(read(path) == b'TRAINING:\n  dtype: bfloat16\n  bs: 4\n  lr: 0.001\n  accumulate: 8\n', read(path))
    conforms(run('apply', '--revert', '--json', '--to', path).expect(0).json(), 'apply', 'apply --revert')
    check(read(path) == b'TRAINING:\n  dtype: float32\n  bs: 1\n  lr: 1\n', read(path))
    answer = run('apply', recipe, '--map', own, '--to', path, '--json', '--dry-run').expect(0).json()
    check(answer['dry_run'] and answer['not_written'][0]['key'] == 'TRAINING.accumulate', answer)
    check(answer['diff'].startswith('--- '), answer)
    conforms(answer, 'apply', 'apply --dry-run')
    for text, part in [('', 'empty'), ('keys: 3\n', 'section'), ('map: nothing\n', 'no built-in map'),
                       ('training.batch_size: {}\n', 'missing'), ('training.batch_size: [[a]]\n', 'expected'),
                       ('training.batch_size: {key: a, colour: 1}\n', "unknown key 'colour'"), ('training.batch_size: "x|y"\n', 'not a word'),
                       ('training.batchsize: a\n', 'did you mean training.batch_size'),
                       ('values: {a: [1]}\n', 'expected')]:
        run('apply', recipe, '--map', folder.write('bad.yaml', text), '--to', path).expect(5, 'bad.yaml:', part)
    # Numbers as every reader of YAML and JSON takes them for numbers: 1e-05 is a word to many, 0.90000000000000002 to nobody.
    own = folder.write('map.yaml', """\
training.optimizer.lr: lr
training.optimizer.betas: betas
training.optimizer.weight_decay: decay
training.optimizer.groups: groups
""")
    group = 'training.optimizer.groups=[{match: "*.lora_B*", lr: 2.5e-7, weight_decay: 0}]'
    for name in ['numbers.yaml', 'numbers.json']:
        quote = '"' if name.endswith('json') else ''
        text = '{%slr%s: 3, %sbetas%s: null, %sdecay%s: null, %sgroups%s: null}' % ((quote,) * 8)
        target = folder.write(name, text)
        run('apply', recipe, '--map', own, '--to', target, '--set', 'training.optimizer.lr=1e-5', '--set', group).expect(0)
        check(read(target).decode() == text.replace('3', '1.0e-05', 1).replace('null', '[0.9, 0.999]', 1).replace('null', '0.01', 1).replace(
            'null', '[{"match": "*.lora_B*", "lr": 2.5e-07, "weight_decay": 0}]'), read(target))
    run('apply', recipe, '--map', 'nonsense', '--to', path).expect(2, '--map', 'lightning')
    before = read(path)
    run('apply', recipe, '--set', 'memory.budget=1MiB', '--to', path, '--map', own).expect(3)
    conforms(run('apply', recipe, '--set', 'memory.budget=1MiB', '--to', path, '--json').expect(3).json(), 'failure', 'no fit')
    check(read(path) == before, 'what does not fit is not written')
    run('apply', recipe).expect(2, '--to')
    run('apply', '--to', path).expect(2, 'needs a recipe')
    run('apply', recipe, '--to').expect(2, 'needs a value')
    run('apply', recipe, '--to', path, path, '--map', own).expect(2, 'same file')
    run('apply', recipe, '--to', folder.path + '/absent.yaml').expect(5, 'no such file')
    run('apply', recipe, '--to', folder.path).expect(5, 'folder')
    for name, text in [('train.sh', 'python train.py --bf16 true\n'), ('c.toml', '[training]\nbatch_size = 3\n'), ('c.ini', 'a = 3\n')]:
        run('apply', recipe, '--to', folder.write(name, text)).expect(5, name, 'neither YAML nor JSON')
    for text, part in [('batch_size: 1\nbatch_size: 2\n', 'repeated'), ('batch_size: [\n', 'flow'), ('a: 1\n---\nb: 1\n', 'several')]:
        bad = folder.write('bad-config.yaml', text)
        good = folder.write('good.yaml', 'trainer: {precision: 32}\n')
        run('apply', recipe, '--to', good, bad, '--map', 'lightning').expect(5, 'bad-config.yaml:', part)
        check(read(good) == b'trainer: {precision: 32}\n' and read(bad) == text.encode(), 'all files or none')
    # A word that a kind of config has no way to say, and one that means the same already.
    tune = folder.write('tune.yaml', 'batch_size: 4\ndtype: bf16\noptimizer: {_component_: torch.optim.AdamW}\n')
    run('apply', recipe, '--map', 'torchtune', '--to', tune).expect(0, 'model.precision = bf16-mixed', 'no word')
    hub = folder.write('hub.yaml', 'optim: adamw_8bit\nper_device_train_batch_size: 4\noutput_dir: x\n')
    answer = run('apply', recipe, '--json', '--to', hub).expect(0).json()
    check([key['outcome'] for key in answer['files'][0]['keys'] if key['key'] == 'optim'] == ['same'], answer)
    # Defaults of a recipe that says nothing are not written into other people's files.
    silent = folder.write('silent.yaml', RECIPE.split('memory:')[0].replace('kind: adamw8bit, ', ''))
    hub = folder.write('hub.yaml', 'optim: lion\nper_device_train_batch_size: 1\ngradient_checkpointing: true\n')
    run('apply', silent, '--to', hub).expect(0)
    check(read(hub) == b'optim: lion\nper_device_train_batch_size: 4\ngradient_checkpointing: true\n', read(hub))
    # Missing keys with their sections, in YAML and JSON; a section that is something else is left.
    bare = folder.write('bare.yaml', 'model: {family: llama}\nmemory:   # later\ntraining:\n  steps: 3\n')
    run('apply', recipe, '--insert', '--to', bare).expect(0)
    check(read(bare) == b"""data: {sequence_length: 64}
model: {family: llama, precision: bf16-mixed, adapters: {rank: 4, alpha: 8, dropout: 0.05}}
memory: {checkpoint: every-layer, offload: {optimizer: host}}   # later
training:
  steps: 3
  batch_size: 4
  effective_batch: 32
  optimizer: {kind: adamw8bit}
""", read(bare).decode())
    # What is put in goes where the others of its kind are.
    text = 'model: {name: x}\nlora: {r: 4}\ntraining:\n  per_device_train_batch_size: 4\n  seed: 1\n'
    bare = folder.write('sections.yaml', text)
    run('apply', recipe, '--insert', '--to', bare).expect(0, 'max_seq_length is not there, and not a key that every trainer')
    check(read(bare).decode() == text.replace('r: 4', 'r: 4, lora_alpha: 8, lora_dropout: 0.05') +
          '  gradient_accumulation_steps: 8\n  bf16: true\n  gradient_checkpointing: true\n  optim: adamw_bnb_8bit\n', read(bare).decode())
    # Only keys that the parser knows: TrainingArguments have no adapters.
    bare = folder.write('arguments.yaml', 'output_dir: x\nper_device_train_batch_size: 4\n')
    run('apply', recipe, '--insert', '--to', bare).expect(0)
    check(read(bare) == b'output_dir: x\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 8\nbf16: true\n'
          b'gradient_checkpointing: true\noptim: adamw_bnb_8bit\n', read(bare))
    bare = folder.write('bare.json', '{"zero_optimization": {}, "bf16": 3}')
    run('apply', recipe, '--insert', '--to', bare).expect(0, 'bf16.enabled has no place', '     -  gradient_accumulation_steps',
                                                          'zero_optimization.offload_optimizer.device', '(none) -> "cpu"')
    check(read(bare) == b'{"zero_optimization": {"offload_optimizer": {"device": "cpu"}}, "bf16": 3, '
          b'"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}', read(bare))
    # --auto closes what is open, and the closed recipe then plans the same without it.
    small = ['--gpu-memory', '24MiB']
    recipe_open = folder.write('open.yaml', RECIPE.split('memory:')[0])
    target = folder.write('closed.yaml', RECIPE.split('memory:')[0])
    wanted = run('plan', recipe_open, '--auto', '--json', *small).expect(0).json()
    run('apply', recipe_open, '--auto', *small, '--insert', '--to', target).expect(0)
    got = run('plan', target, '--json', *small).expect(0).json()
    check(got['device']['peak_bytes'] == wanted['device']['peak_bytes'] and got['settings']['training'].get('batch_size') ==
          wanted['settings']['training'].get('batch_size'), f'{got["settings"]} {wanted["settings"]}')
    # A recipe that has accumulation or effective batch of its own: a step is what was planned, and nothing is missing.
    plain = RECIPE.replace('  effective_batch: 32\n', '')
    for source, head in [(folder.write('plain.yaml', plain), 1), (recipe, 8)]:
        for keys in [['gradient_accumulation'], ['effective_batch'], ['gradient_accumulation', 'effective_batch']]:
            lines = ''.join(f'  {key}: 64\n' for key in keys)
            values = {'gradient_accumulation': head, 'effective_batch': 4 * head}
            target = folder.write('target.yaml', plain.replace('  batch_size: 4\n', '  batch_size: 1\n' + lines))
            answer = run('apply', source, '--json', '--to', target).expect(0).json()
            wanted = plain.replace('  batch_size: 4\n', '  batch_size: 4\n' + ''.join(f'  {key}: {values[key]}\n' for key in keys))
            check(read(target) == wanted.encode(), f'{keys}: {show(read(target))}')
            check(not answer['not_written'] and 'warning' not in answer, f'{keys}: {answer}')
    # Batch or accumulation that is not what was planned: a warning, whether or not the other one had to be written.
    for text, warned in [('batch_size: 4\naccumulate_grad_batches: ${x}\n', True), ('batch_size: ${x}\naccumulate_grad_batches: 8\n', True),
                         ('batch_size: ${x}\naccumulate_grad_batches: 4\n', True), ('batch_size: 2\n', True),
                         ('batch_size: 4\n', True), ('accumulate_grad_batches: 8\n', True),
                         ('batch_size: 2\naccumulate_grad_batches: 8\n', False), ('batch_size: 4\naccumulate_grad_batches: 8\n', False)]:
        target = folder.write('warn.yaml', text)
        answer = run('apply', recipe, '--map', 'lightning', '--json', '--dry-run', '--to', target).expect(0).json()
        conforms(answer, 'apply', text)
        told = run('apply', recipe, '--map', 'lightning', '--dry-run', '--to', target).expect(0).err
        check(('warning' in answer, 'warning: ' in told) == (warned, warned), f'{text}: {answer} {told}')
    # DeepSpeed's train_batch_size counts all ranks: how many there are stays, or it is left with a note.
    for numbers, after in [((1, 16, 128), '256'), ((2, 2, 4), '32'), ((2, 2, 6), None), ((0, 2, 6), None), ((2, '"auto"', 8), None),
                           (('"2"', 2, 8), None), ((2, 2, '"${x}"'), None), ((2, 2, '"auto"'), '"auto"'), ((2, 2, 1.5), None)]:
        text = '{"train_micro_batch_size_per_gpu": %s, "gradient_accumulation_steps": %s, "train_batch_size": %s}'
        target = folder.write('ds.json', text % numbers)
        answer = run('apply', recipe, '--json', '--to', target).expect(0).json()
        now = read(target).decode()
        first = '"4"' if numbers[0] == '"2"' else '4'
        second = numbers[1] if numbers[1] == '"auto"' else 8
        check(now == text % (first, second, after or numbers[2]), f'{numbers}: {now}')
        noted = [note['key'] for note in answer['not_written'] if 'batch' in note['key']]
        check(noted == ([] if after else ['train_batch_size']) and ('warning' in answer) == (not after), f'{numbers}: {answer}')
    # Its `auto` is what the trainer's arguments say: with their file in the call it is right as it is, alone it is reported.
    text = '{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}}'
    target = folder.write('ds.json', text)
    args = folder.write('args.yaml', 'output_dir: x\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: false\n')
    answer = run('apply', recipe, '--json', '--to', target).expect(0).json()
    check(read(target).decode() == text and not answer['files'][0]['changed'], answer)
    check(len([note for note in answer['not_written'] if 'is auto' in note['reason']]) == 3 and 'warning' in answer, answer)
    answer = run('apply', recipe, '--json', '--to', args, target).expect(0).json()
    check(read(target).decode() == text and 'warning' not in answer, answer)
    check([key['outcome'] for key in answer['files'][1]['keys']] == ['same'] * 3, answer)
    check(read(args) == b'output_dir: x\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 8\nbf16: true\n', read(args))
    # What a torchtune builder is called says whether it quantizes, and one optimizer's own arguments stay behind with another.
    for method, before, after, part in [
            ('qlora', 'qlora_llama3_8b', 'qlora_llama3_8b', None), ('qlora', 'lora_llama3_8b', 'lora_llama3_8b', 'quantize_base'),
            ('lora', 'qlora_llama3_8b', 'lora_llama3_8b', None), ('lora', 'lora_llama3_8b', 'lora_llama3_8b', None),
            ('lora', '"my.own"', '"my.own"', None)]:
        name = before if before.startswith('"') else 'torchtune.models.llama3.' + before
        text = f'batch_size: 4\nmodel:\n  _component_: {name}\noptimizer: {{_component_: torch.optim.AdamW, fused: True}}\n'
        target = folder.write('tune.yaml', text)
        answer = run('apply', recipe, '--json', '--method', method, '--set', 'training.optimizer.kind=adamw', '--to', target).expect(0).json()
        check(read(target).decode() == text.replace(before, after), f'{method} {before}: {read(target)}')
        noted = [note['key'] for note in answer['not_written'] if note['setting'] == 'model.quantize.kind']
        check(noted == (['model.quantize_base'] if part else []), f'{method} {before}: {answer}')
        run('apply', recipe, '--to', target, '--dry-run').expect(0, 'optimizer.fused has no word')
    # A schedule of accumulation has no place in one number; keys that are not there are not asked for it either.
    corpus = folder.write('corpus.txt', 'text of a corpus\n' * 1000)
    schedule = folder.write('schedule.yaml', RECIPE.replace('effective_batch: 32', 'gradient_accumulation: {0: 4, 8: 2}').replace(
        'source: synthetic', f'source: text, path: {corpus}'))
    for text in ['output_dir: x\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n',
                 'base_model: x\nmicro_batch_size: 4\ngradient_accumulation_steps: 2\n']:
        answer = run('apply', schedule, '--json', '--to', folder.write('schedule-to.yaml', text)).expect(0).json()
        noted = [note['key'] for note in answer['not_written'] if 'one value' in note['reason']]
        check(noted == ['gradient_accumulation_steps'] and 'warning' in answer, answer)
    # The older way of axolotl: samples per step instead of accumulation; 8 bits make way for 4, else they stay.
    text = 'base_model: x\nadapter: lora\nload_in_8bit: True\nbatch_size: 64\nmicro_batch_size: 1\n'
    target = folder.write('axolotl.yml', text)
    answer = run('apply', recipe, '--json', '--to', target).expect(0).json()
    check(read(target).decode() == text.replace('64', '32').replace(': 1', ': 4'), read(target))
    check('warning' not in answer, answer)
    run('apply', recipe, '--method', 'qlora', '--to', target).expect(0)
    check(b'load_in_8bit: False\n' in read(target) and b'adapter: qlora' in read(target), read(target))
    # LLaMA-Factory knows both keys for checkpointing.
    text = 'stage: sft\nfinetuning_type: lora\nper_device_train_batch_size: 4\ngradient_checkpointing: true\n'
    target = folder.write('factory.yaml', text)
    run('apply', recipe, '--set', 'memory.checkpoint=none', '--to', target).expect(0)
    check(read(target).decode() == text.replace('true', 'false'), read(target))
    # What a file says does not reach the terminal as it is.
    hostile = folder.write('hostile.yaml', 'batch_size: 1\naccumulate_grad_batches: "${\\e[31m}"\n')
    own = folder.write('hostile-map.yaml', 'training.batch_size: "batch\\e[31m"\ntraining.gradient_accumulation: accumulate_grad_batches\n')
    odd = folder.write('odd-key.yaml', '"batch\\e[31m": ${x}\naccumulate_grad_batches: 2\n')
    for target in [hostile, odd]:
        done = run('apply', recipe, '--map', own, '--dry-run', '--to', target)
        check('\x1b' not in done.err and 'left alone' in done.err, repr(done.err))
    # One that was cut off behind its decision is finished by --revert too, which says so.
    pair = [os.path.realpath(folder.write(f'cut-{i}.yaml', 'batch_size: 1\n')) for i in range(2)]
    run('apply', recipe, '--map', 'lightning', '--to', *pair).expect(0)
    for path in pair:
        os.rename(path, path + '.apply-new')
        os.rename(path + '.backup', path + '.apply-backup')
        os.rename(path + '.backup.record', path + '.apply-record')
        folder.write(path, 'batch_size: 1\n')
        folder.write(path + '.apply-journal', '\0'.join(['headroom apply 1', 'replace', 'a' * 64, *pair, '']))
    done = run('apply', '--revert', '--to', pair[1]).expect(0, 'cut off has been finished', 'as it was')
    check([read(path) for path in pair] == [b'batch_size: 4\n', b'batch_size: 1\n'], 'finished, then one put back')
    run('apply', '--revert', '--to', pair[0]).expect(0)
    # A file that had its values already got no backup, and stays as the others are put back.
    rest = [folder.write('rest/a.yml', 'batch_size: 4\ndtype: bf16\n'), folder.write('rest/b.yml', 'batch_size: 1\ndtype: bf16\n')]
    run('apply', recipe, '--map', 'torchtune', '--to', *rest).expect(0, '1 file written')
    check([os.path.exists(path + '.backup') for path in rest] == [False, True], 'one backup')
    run('apply', '--revert', '--dry-run', '--to', *rest).expect(0, '+batch_size: 1')
    answer = run('apply', '--revert', '--dry-run', '--json', '--to', *rest).expect(0).json()
    check(answer['reverted'] == rest[1:], f'{answer}')
    run('apply', '--revert', '--to', *rest).expect(0, 'a.yml has no backup, and stays', 'b.yml is as it was before')
    check([read(path) for path in rest] == [b'batch_size: 4\ndtype: bf16\n', b'batch_size: 1\ndtype: bf16\n'], 'put back')
    for flags in [], ['--dry-run']:
        run('apply', '--revert', *flags, '--to', *rest).expect(5, 'no backup')
    # QLoRA: a plan from flags alone.
    tune = folder.write('qlora.yml', 'base_model: x\nadapter: lora\nload_in_4bit: false\nmicro_batch_size: 1\nlora_r: 8\n')
    run('apply', recipe, '--method', 'qlora', '--rank', '2', '--seq', '32', '--to', tune).expect(0)
    check(read(tune) == b'base_model: x\nadapter: qlora\nload_in_4bit: true\nmicro_batch_size: 4\nlora_r: 2\n', read(tune))
    # The owner stays; only root can give files to others.
    if os.geteuid() == 0:
        owned = folder.write('owned.yaml', 'trainer: {precision: 32}\n')
        os.chown(owned, 1234, 2345)
        os.chmod(owned, 0o604)
        run('apply', recipe, '--to', owned).expect(0)
        for name in [owned, owned + '.backup']:
            facts = os.stat(name)
            check((facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (1234, 2345, 0o604), f'{name}: {facts}')
        run('apply', '--revert', '--to', owned).expect(0)
        facts = os.stat(owned)
        check((facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (1234, 2345, 0o604), f'reverted: {facts}')
    # A file that cannot be replaced, in a folder without permission to write or immutable (chattr, as root on file systems
    # that have it), is an error that leaves nothing behind.
    locked = folder.write('locked/a.yaml', 'trainer: {precision: 32}\n')
    there = os.path.dirname(locked)
    for name in [folder.path, there, locked]:
        os.chmod(name, 0o755)
    os.chmod(recipe, 0o644)
    os.chmod(there, 0o555)
    before = folder.listing()
    try:
        run('apply', recipe, '--to', locked, user=65534 if os.geteuid() == 0 else None).expect(1, 'ermission', 'a.yaml', 'try:')
    except PermissionError:
        print('not tried: others may not run the program here')
    check(folder.listing() == before and read(locked) == b'trainer: {precision: 32}\n', 'a read-only folder')
    os.chmod(there, 0o755)
    for what in [locked, there]:
        if os.geteuid() != 0 or subprocess.run(['chattr', '+i', what], capture_output=True, check=False).returncode != 0:
            continue
        done = run('apply', recipe, '--to', locked)
        subprocess.run(['chattr', '-i', what], check=True)
        done.expect(1, 'a.yaml', 'try:')
        check(folder.listing() == before and read(locked) == b'trainer: {precision: 32}\n', f'{what} is immutable')
    run('apply', recipe, '--to', locked).expect(0)
    check(read(locked) != b'trainer: {precision: 32}\n', 'it could have been written')
    # A full disk.
    full = folder.write('full.yaml', 'trainer: {precision: 32}\n' + '# pad\n' * 400)
    before = read(full)
    run('apply', recipe, '--to', full, limit_bytes=1000).expect(1)
    check(read(full) == before and not os.path.exists(full + '.backup'), 'a full disk leaves the file')
    check(not [name for name in folder.listing() if '.apply-' in name], 'nothing is left behind')
finish()

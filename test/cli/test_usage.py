#!/usr/bin/env python3
"""The command line itself: help, versions, unknown words, and how errors look as text and as JSON."""
import os
import re
import subprocess

from support import HEADROOM, ROOT, Folder, TINY, check, finish, run

COMMANDS = ['plan', 'train', 'profile', 'dump', 'tokenize', 'devices', 'env']

run().expect(2, 'no command', 'try:')
run('--help').expect(0, 'usage: headroom', *COMMANDS)
run('--version').expect(0, 'headroom 0.')
run('help', 'train').expect(0, '--resume')
for command in COMMANDS:
    run(command, '--help').expect(0, f'usage: headroom {command}', '--set', 'exit codes')
    check(run(command, '--help').err == '', f'{command} --help writes to stderr')

run('paln').expect(2, "unknown command 'paln'", "did you mean 'headroom plan'")
run('xyzzyx').expect(2, 'unknown command', 'headroom --help')
run('plan').expect(2, 'needs a recipe')
run('plan', 'a.yaml', 'b.yaml').expect(2, "unexpected argument 'b.yaml'")
run('plan', '--jsno', 'a.yaml').expect(2, "unknown option '--jsno'", '--json')
run('train', '--resum', '--xyz', 'a.yaml').expect(2, 'unknown option')
run('plan', '-z', 'a.yaml').expect(2, "unknown option '-z'")
run('plan', 'a.yaml', '--set').expect(2, "'--set' needs a value")
run('plan', '--set', 'novalue', 'a.yaml').expect(2, 'KEY=VALUE')
run('plan', '--set', '=3', 'a.yaml').expect(2, 'KEY=VALUE')
run('plan', '--color', 'pink', 'a.yaml').expect(2, 'auto, always or never')
run('plan', '--json=1', 'a.yaml').expect(2, 'takes no value')
run('train', '--steps', 'many', 'a.yaml').expect(5)  # the recipe comes first: it does not exist
run('devices', 'a.yaml').expect(2, '--measure')
run('plan', 'a.yaml', '--sweep', 'seq=1,2', '--sweep', 'batch=1,2').expect(2, "'--sweep' is given twice")
run('plan', 'a.yaml', '--gpu=4090', '--gpu', '3090').expect(2, "'--gpu' is given twice")
run('train', 'a.yaml', '--gpu', '4090').expect(2, "unknown option '--gpu'", 'it is an option of plan, report, apply')
run('plan', 'a.yaml', '--resume').expect(2, 'it is an option of train')

# What people write from habit with other trainers is answered with how headroom says it: as options, as keys, as commands.
OPTIONS = [('--precision bf16', '--set model.precision=bf16-mixed'), ('--precision=fp16', '--set model.precision=16-mixed'),
           ('--precision', '--set model.precision=32-true|bf16-mixed|'), ('--bf16', '--set model.precision=bf16-mixed'),
           ('--fp16', '--set model.precision=16-mixed'), ('--lr 1e-4', '--set training.optimizer.lr=1e-4'),
           ('--learning-rate=1e-4', '--set training.optimizer.lr=1e-4'), ('--batch-size 8', 'write --batch 8'),
           ('--num-train-epochs 3', '--epochs 3'), ('--max-steps 9', '--steps 9'),
           ('--seed 7', '--set training.seed=7'), ('--lora-r 8', 'write --rank 8'), ('--load-in-4bit', '--method qlora'),
           ('--gradient-checkpointing', '--set memory.checkpoint=every-layer'), ('--output-dir runs', 'write --out runs'),
           ('--gradient-accumulation-steps 4', '--set training.gradient_accumulation=4'), ('--seq-len 64', '--seq 64'),
           ('--device gpu', '--set memory.device=cuda'), ('--dry-run', 'headroom plan says'),
           ('--quantization_bit 4', '--set model.quantize.kind=nf4'), ('--cpu-offload', '--set memory.offload.optimizer=host')]
for typed, meant in OPTIONS:
    run('train', 'a.yaml', *typed.split()).expect(2, 'unknown option', meant)
# Mistyped ones of others are nearer than what only shares some letters.
for typed, meant in [('--presision bf16', 'model.precision=bf16-mixed'), ('--learning-rtae 1e-4', 'training.optimizer.lr=1e-4'),
                     ('--btach-size 8', 'write --batch 8'), ('--bach 8', 'did you mean --batch?'), ('--quite', 'did you mean --quiet?')]:
    run('train', 'a.yaml', *typed.split()).expect(2, 'unknown option', meant)
run('plan', 'a.yaml', '--co').expect(2, 'unknown option', 'did you mean --co')  # of --compare and --color; however much is missing
check('did you mean' not in run('plan', 'a.yaml', '--xylophonic').expect(2).err, 'far away is no typing error')
run('plan', 'a.yaml', '--output-dir', 'runs').expect(2, 'headroom train has --out')
with open(os.path.join(ROOT, 'src/recipe/others.c'), encoding='utf-8') as text:  # what it names is there
    named = re.findall(r'"((?:model|data|training|memory)\.[a-z_.]+)"', text.read())
known = re.findall(r'^\| `(\S+)` \|', run('env', '--keys').out, re.M)
check(len(named) > 30 and set(named) <= set(known), f'no settings: {sorted(set(named) - set(known))}')
KEYS = [('training.learning_rate', 'training.optimizer.lr'), ('lr', 'training.optimizer.lr'), ('output_dir', '--out'),
        ('bf16', 'model.precision: bf16-mixed'), ('training.per_device_train_batch_size', 'training.batch_size'),
        ('training.gradient_accumulation_steps', 'training.gradient_accumulation'),
        ('data.max_length', 'data.sequence_length'), ('model.lora_r', 'model.adapters.rank'),
        ('memory.gradient_checkpointing', 'memory.checkpoint: every-layer')]
with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    for key, meant in KEYS:
        run('plan', recipe, '--set', key + '=1').expect(5, 'unknown key', meant)
    for word, meant in [('run', 'train'), ('fit', 'plan --auto'), ('finetune', 'train'), ('gpus', 'devices --gpus'),
                        ('resume', 'train --resume'), (recipe, 'plan ' + recipe), ('estimate-memory', 'plan')]:
        run(word).expect(2, 'unknown command', f"did you mean 'headroom {meant}'?")

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    # A reader that has seen enough is no error to tell of; a full disk is one.
    for arguments in [['dump', recipe], ['dump', recipe, '--after', 'grad'], ['dump', recipe, '--json'], ['--help']]:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([HEADROOM, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        check(done.returncode == 1 and done.stderr == '', f'{arguments}: {done}')
        with open('/dev/full', 'w', encoding='utf-8') as full:
            done = subprocess.run([HEADROOM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            check(done.returncode == 1 and 'error: ' in done.stderr, f'{arguments}: {done}')
    for bad in ['many', '0', '-3', '1.5', '99999999999999999999', '']:
        run('train', '--steps', bad, recipe, '--out', folder.path + '/out').expect(2, '--steps', 'whole number')
    run('dump', recipe, '--after', 'nothing').expect(2, "no stage 'nothing'", 'grad', 'plan')
    # Global options stand before or after the command; the last --color counts.
    for arguments in [('--json', 'plan', recipe), ('plan', '--json', recipe), ('plan', recipe, '--json')]:
        check(run(*arguments).expect(0).json().get('schema') == 1, f'{arguments}: schema')
    check('\033[' in run('plan', recipe, '--color', 'always').out, 'colours when asked for')
    check('\033[' not in run('plan', recipe).out, 'no colours into a pipe')
    check('\033[' not in run('plan', recipe, '--color', 'never').out, 'no colours')
    check(run('plan', recipe, '--quiet').expect(0).out == '', '--quiet prints nothing')
    check(all(len(line) <= 80 for line in run('plan', recipe).out.splitlines()), 'the table fits 80 columns')
    error = run('plan', '--json', folder.path + '/absent.yaml').expect(5)
    fields = error.json().get('error', {})
    check(set(fields) == {'code', 'exit_code', 'message', 'place', 'remedy'}, f'fields of an error: {fields}')
    check(fields.get('exit_code') == 5 and fields.get('code') == 'HR_BAD_INPUT', f'code of an error: {fields}')
    check(error.err == '', 'with --json the error is on stdout only')
    text = run('plan', folder.path + '/absent.yaml')
    check(text.out == '' and text.err.startswith('error: '), f'text error on stderr: {text.err}')
    # Short names of settings; --gpu is not taken for --gpu-memory.
    short = run('plan', recipe, '--json', '--gpu-memory', '3GiB', '--margin', '1MiB', '--target-effective-batch', '6',
                '--set', 'training.gradient_accumulation=5').expect(0).json()
    check(short['device']['budget_bytes'] == 3 << 30 and short['device']['margin_bytes'] == 1 << 20, f'{short["device"]}')
    check(short['settings']['training']['effective_batch'] == 6, f'{short["settings"]["training"]}')
    check('gradient_accumulation' not in short['settings']['training'], f'{short["settings"]["training"]}')
    for option in ['--gpu-memory', '--margin']:
        for bad in ['', 'null', '~', 'much', '-1']:
            run('plan', recipe, option + '=' + bad).expect(2, option, 'not a size')
    run('plan', recipe, '--target-effective-batch', '0').expect(2, 'whole number')
    run('plan', recipe, '--target-effective-batch', '3').expect(5, 'batch')
    run('plan', recipe, '--gpu', '80').expect(2, '--gpu-memory')
    run('plan', recipe, '--gpu-memory', '24').expect(2, 'the unit', '--gpu-memory 24GiB')
    run('profile', recipe, '--steps', '65').expect(2, 'from 1 to 64')
    # A full disk is told, not ignored.
    with open('/dev/full', 'w') as full:
        done = subprocess.run([HEADROOM, 'plan', recipe], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        check(done.returncode == 1 and 'error:' in done.stderr, f'/dev/full: {done.returncode} {done.stderr}')
        check('Success' not in done.stderr, f'/dev/full: {done.stderr}')
        done = subprocess.run([HEADROOM, 'train', recipe, '--out', folder.path + '/full', '--json'], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
        check(done.returncode == 1 and 'error:' in done.stderr, f'train, /dev/full: {done.returncode} {done.stderr}')
        check('No space' in done.stderr, f'train, /dev/full: {done.stderr}')
finish()

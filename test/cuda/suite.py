#!/usr/bin/env python3
"""On a GPU what the tests of the program prove on the CPU: same bits, planned memory, resume, refusals, steadiness.

    HEADROOM=build/headroom python3 test/cuda/suite.py [--out FOLDER] [--device cpu] [--jobs N] [PART...]

Parts run several processes at once, but for those that look at memory. A failure is one line with its command; the whole
output of commands that failed goes to FOLDER/suite.txt. --device cpu tries the script itself where no GPU is.
"""
import argparse
import concurrent.futures
import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'cli'))
import support  # noqa: E402
import test_planned_and_measured as planned_cases  # noqa: E402
import test_resume as resume_cases  # noqa: E402
import test_same_bits as bits_cases  # noqa: E402
from support import RECIPES, TINY, Folder, check, run  # noqa: E402

MIB = 1 << 20
PRECISIONS = bits_cases.PRECISIONS
KINDS = bits_cases.KINDS
ALL_ON = {tier: [f'memory.offload.{kind}={tier}' for kind in KINDS] for tier in ('host', 'disk')}
LORA = 'model.adapters={kind: lora, rank: 8, dropout: 0.1, targets: [all-linear]}'
NF4 = 'model.quantize={kind: nf4, double: true}'
# Text, and heads of 64: what a GPU's libraries are made for.
WIDE = """\
model:
  family: llama
  config: { hidden_size: 256, intermediate_size: 512, num_hidden_layers: 3, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256, tie_word_embeddings: true }
data: { source: text, path: kjv.txt, sequence_length: 128 }
training:
  batch_size: 4
  steps: 10
  optimizer: { lr: 1e-3 }
"""
# Samples of different lengths, seen from both sides, with dropout.
ENCODER = """\
model:
  family: bert
  config: { vocab_size: 300, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 3, num_attention_heads: 4,
            max_position_embeddings: 128 }
data: { source: lines, path: kjv.txt, sequence_length: 128, buckets: [64, 128] }
training:
  batch_size: 4
  steps: 10
  optimizer: { lr: 1e-3 }
"""


def tolerance(settings):
    """Relative, of losses: as far as another order of sums goes in the first steps."""
    return 1e-2 if any('16' in setting for setting in settings if 'precision' in setting) else 1e-4


class Suite:
    """The device, the folder of all recipes and runs, and the pool of processes."""

    def __init__(self, options, folder):
        self.device, self.folder, self.out = options.device, folder, options.out
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        self.numbers = itertools.count()
        self.alone = True
        os.symlink(os.path.join(RECIPES, 'kjv.txt'), os.path.join(folder.path, 'kjv.txt'))
        for name, text in [('bits', bits_cases.RECIPE), ('resume', resume_cases.RECIPE), ('wide', WIDE), ('encoder', ENCODER),
                           ('planned', planned_cases.RECIPE), ('tiny', TINY)]:
            folder.write(name + '.yaml', text)
        words = ' '.join(str(n * n) for n in range(1, 260))
        folder.write('text.txt', '\n'.join(words[i:i + 7 + i % 29] for i in range(0, len(words), 31)))
        for name in ('demo', 'lora', 'qlora'):
            with open(os.path.join(RECIPES, name + '.yaml'), encoding='utf-8') as file:
                folder.write(name + '.yaml', file.read())

    def arguments(self, verb, recipe, settings, *more, device=None):
        # Budgets of the recipes are the CPU's. An update on the host rounds as the CPU does: a case of its own.
        fixed = [f'memory.device={device or self.device}', f'memory.offload_folder={self.folder.path}',
                 'memory.budget=auto']
        if not any('offload.update' in setting for setting in settings):
            fixed.append('memory.offload.update=device')
        return [verb, os.path.join(self.folder.path, recipe + '.yaml'), *more,
                *(word for setting in fixed + list(settings) for word in ('--set', setting))]

    def run(self, *arguments, env=None, timeout=100):
        try:
            result = run(*arguments, cwd=self.folder.path, env=env, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            result = support.Result(late.cmd, subprocess.CompletedProcess(late.cmd, -1, '', f'took over {timeout} s'))
        result.started = arguments
        return result

    def new_folder(self):
        return os.path.join(self.folder.path, f'run{next(self.numbers)}')

    def train(self, recipe, settings, *more, out=None, device=None):
        out = out or self.new_folder()
        result = self.run(*self.arguments('train', recipe, settings, '--json', '--out', out, *more, device=device))
        result.folder = out
        return result

    def later(self, function, *arguments, **named):
        return self.pool.submit(function, *arguments, **named)

    def fail(self, result, what):
        check(False, f'{what}: exit {result.code}, {first_line(result)}: {result.command}')
        with open(os.path.join(self.out, 'suite.txt'), 'a', encoding='utf-8') as file:
            file.write(f'{what}\n{result.command}\nexit {result.code}\n{result.out}{result.err}\n')

    def answer(self, result, what):
        """The object of a run that worked. Where the driver tells no process from another, runs side by side count
        each other's memory (exit code 4); the runs that look at memory are alone."""
        if result.code == 0 or (result.code == 4 and self.device == 'cuda' and not self.alone):
            check(True, what)
            return result.json()
        self.fail(result, what)
        return {}

    def expect(self, result, code, *parts):
        missing = [part for part in parts if part not in result.out + result.err]
        if result.code == code and not missing:
            check(True, result.command)
        else:
            self.fail(result, f'expected exit {code}' + (f' and {missing}' if missing else ''))


def first_line(result):
    for line in (result.err + result.out).splitlines():
        if 'error: ' in line or '"message"' in line or 'over' in line:
            return line.strip()[:200]
    return (result.err + result.out)[:200].replace('\n', ' ')


def log_of(folder, key='loss'):
    """The values of `key` by line of the log."""
    try:
        with open(os.path.join(folder, 'log.jsonl'), encoding='utf-8') as file:
            lines = [json.loads(line) for line in file]
    except FileNotFoundError:
        return []
    return [line[key] for line in lines if key in line]


def apart(left, right):
    """The largest relative difference; infinite where the lists cannot be compared."""
    if not left or len(left) != len(right) or None in left + right:
        return float('inf')
    return max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in zip(left, right))


def same(suite, what, plain, tested):
    """Two runs with one result."""
    a, b = suite.answer(plain, what), suite.answer(tested, what)
    if a and b:
        check(a['weights_sha256'] == b['weights_sha256'], f'{what}: other weights than {plain.command}: {tested.command}')


def near(suite, what, plain, tested, limit, key='loss'):
    a, b = suite.answer(plain, what), suite.answer(tested, what)
    if a and b:
        far = apart(log_of(plain.folder, key), log_of(tested.folder, key))
        check(far <= limit, f'{what}: {key} differs by {far:.2e} from {plain.command}: {tested.command}')


# What recompute, offload, updates and paging leave alone. The tests' table, and the same on a shape for libraries.
def part_bits(suite):
    less = [] if suite.device == 'cuda' else ['data.sequence_length=16']
    plain, cases, steps = {}, [], ['--steps', 15 if suite.device == 'cuda' else 2]
    for precision in PRECISIONS:
        more = bits_cases.IN_BACKWARD if precision != '16-mixed' else []
        for name, common, tested in bits_cases.CASES + more:
            if suite.device == 'cuda' and 'memory.offload.update=host' in tested:
                continue  # the CPU rounds a quotient otherwise than the GPU does: part near
            if precision == 'bf16-mixed' and name.split()[0] in KINDS:
                continue  # one kind by itself, as in the other precisions
            common = [setting for setting in common if 'steps' not in setting]
            cases.append(('bits', f'{precision}: {name}', [f'model.precision={precision}', *common], tested))
        common = [f'model.precision={precision}', 'training.optimizer.kind=adamw8bit']
        cases.append(('wide', f'{precision}: wide, selective, state on the host', common,
                      ['memory.checkpoint=selective', 'memory.offload.optimizer=host']))
        cases.append(('wide', f'{precision}: wide, every-layer, activations on disk', common,
                      ['memory.checkpoint=every-layer', 'memory.offload.activations=disk']))
        for name, adapters in [('lora', [LORA]), ('qlora', [LORA, NF4])]:
            common = [f'model.precision={precision}', *adapters]
            cases.append(('wide', f'{precision}: wide {name}, every-layer, all on the host', common,
                          ['memory.checkpoint=every-layer', *ALL_ON['host']]))
            cases.append(('wide', f'{precision}: wide {name}, selective, parameters on disk', common,
                          ['memory.checkpoint=selective', 'memory.offload.parameters=disk']))
        # As many slices: the same bits, whatever else is set.
        common = [f'model.precision={precision}', 'memory.split={mlp: 2, self_attn: 4, lm_head: 3}']
        cases.append(('wide', f'{precision}: wide, split, every-layer, all on the host', common,
                      ['memory.checkpoint=every-layer', *ALL_ON['host']]))
    for recipe, _, common, _ in cases:
        key = recipe, *common
        if key not in plain:
            plain[key] = suite.later(suite.train, recipe, common + less, *steps)
    runs = [(what, plain[(recipe, *common)], suite.later(suite.train, recipe, common + tested + less, *steps))
            for recipe, what, common, tested in cases]
    for what, a, b in runs:
        same(suite, what, a.result(), b.result())
    left = [path for path in suite.folder.listing() if path.endswith('.offload')]
    check(not left, f'files of the disk tier are left: {left}')


# Agreement to rounding: split against whole, an update on the host against one on the device, accumulation.
def part_near(suite):
    runs = []

    def pair(what, recipe, left, right):
        runs.append((what, suite.later(suite.train, recipe, left), suite.later(suite.train, recipe, right),
                     tolerance(left), left))
    for precision in PRECISIONS:
        common = [f'model.precision={precision}']
        pair(f'{precision}: split', 'wide', common, common + ['memory.split={layers.*: 2, lm_head: 3}'])
        pair(f'{precision}: split of an encoder', 'encoder', common,
             common + ['memory.split={layer.*: 2, cls.predictions: 3}'])
        pair(f'{precision}: accumulation', 'wide', common,
             common + ['training.batch_size=2', 'training.gradient_accumulation=2'])
        for kind in ['adamw', 'adamw8bit', 'sgd']:
            common = [f'model.precision={precision}', f'training.optimizer.kind={kind}', 'memory.offload.optimizer=host',
                      'training.clip_norm=1.0']
            if kind == 'sgd':
                common += ['training.optimizer.momentum=0.9', 'training.optimizer.lr=0.02']
            pair(f'{precision}: {kind} on the host', 'wide', common, common + ['memory.offload.update=host'])
    repeated = []
    for precision in PRECISIONS:  # an update on the host repeats its own bits, also with other settings
        common = [f'model.precision={precision}', 'memory.offload.optimizer=host', 'memory.offload.update=host']
        repeated.append((f'{precision}: updates on the host', suite.later(suite.train, 'wide', common),
                         suite.later(suite.train, 'wide', common + ['memory.checkpoint=every-layer',
                                                                     'memory.offload.parameters=host'])))
    for what, a, b, limit, _ in runs:
        near(suite, what, a.result(), b.result(), limit)
    for what, a, b in repeated:
        same(suite, what, a.result(), b.result())


# The driver's count against the plan, one process at a time.
def part_memory(suite):
    mixed, true = 'model.precision=bf16-mixed', 'model.precision=bf16-true'
    cases = [('planned', settings) for settings in [
        [], [mixed, 'memory.checkpoint=selective'], ['model.precision=16-mixed', 'training.gradient_accumulation=2'],
        [true, 'training.optimizer.kind=paged_adamw8bit', 'memory.update=in-backward'],
        [mixed, 'memory.checkpoint=every-layer', *ALL_ON['host']], ['memory.offload.activations=host'],
        ['memory.offload.optimizer=host', 'memory.offload.update=host'],
        [true, 'memory.offload.parameters=disk', 'memory.offload.optimizer=disk'],
        [true, LORA, 'memory.checkpoint=selective'], [true, 'memory.split={mlp: 4, lm_head: 4}']]]
    cases += [('encoder', [mixed, 'training.eval_every=2']), ('demo', ['training.eval_every=2']), ('qlora', []), ('lora', [mixed])]
    if suite.device == 'cuda':
        large = ['model.config.hidden_size=1024', 'model.config.intermediate_size=2816', 'data.sequence_length=1024']
        cases += [('planned', large + [true]), ('planned', large + ['memory.checkpoint=every-layer', *ALL_ON['host']])]
    for recipe, settings in cases:
        result = suite.run(*suite.arguments('profile', recipe, settings, '--json', '--steps', '2'))
        answer = suite.answer(result, 'profile')
        if not answer:
            continue
        planned, measured = answer['device']['peak_bytes'], answer['measured']['process_bytes']
        if suite.device == 'cpu':
            planned += answer['host']['peak_bytes']
        room = max(planned // 100, 32 * MIB)
        print(f'  planned {planned / MIB:9.1f} MiB, held {measured / MIB:9.1f}, {(measured - planned) / MIB:+7.1f}; step '
              f'{answer["step_seconds"] * 1e3:8.3f} ms, took {answer["measured"]["step_seconds"] * 1e3:8.3f}: '
              f'{recipe} {" ".join(settings)}', flush=True)
        check(planned - room <= measured <= planned,
              f'planned {planned}, held {measured}, {(measured - planned) / MIB:+.1f} MiB: {result.command}')
        check(answer['measured']['arena_bytes'] == answer['device']['arena_bytes'], f'arena: {result.command}')


# The same recipe on the CPU.
def part_against(suite):
    small = ['training.batch_size=2', 'data.sequence_length=128', 'training.steps=10', 'training.schedule=null']
    cases = [(recipe, [f'model.precision={precision}', *small]) for recipe in ('demo', 'lora') for precision in PRECISIONS]
    cases += [('qlora', ['model.precision=32-true', *small]), ('qlora', small + ['model.precision=bf16-true']),
              ('demo', ['model.precision=bf16-true', 'training.optimizer.state=bf16', 'training.optimizer.betas=null',
                        *small]),
              ('demo', ['training.optimizer={kind: adamw8bit, lr: 2e-3}', *small]),
              ('demo', ['training.optimizer={kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true}', *small])]
    cases += [('encoder', [f'model.precision={precision}']) for precision in PRECISIONS]
    cases += [('encoder', ['data.source=text', 'data.buckets=null', 'model.config.hidden_act=gelu_new'])]
    runs = [(f'{recipe} on the CPU', suite.later(suite.train, recipe, settings, device='cpu'),
             suite.later(suite.train, recipe, settings),
             tolerance(settings) * (5 if recipe == 'qlora' else 1))  # its learning rate is five times the demo's
            for recipe, settings in cases]
    for what, a, b, limit in runs:
        near(suite, what, a.result(), b.result(), limit)
        first = [log_of(done.result().folder, 'grad_norm')[:1] for done in (a, b)]
        check(apart(*first) <= 2 * limit, f'{what}: first norms {first}: {b.result().command}')


def stopped(suite, settings):
    """Stops three times, and goes on."""
    out = suite.new_folder()
    for i, stop in enumerate(resume_cases.STOPS + (resume_cases.STEPS,)):
        result = suite.train('resume', settings, '--steps', stop, *(['--resume'] if i else []), out=out)
        if result.code not in (0, 4):
            break
    return result


def killed(suite, settings, steps):
    """kill -9 at three places in the middle, and goes on; also tells how often it was in the middle."""
    out, hits = suite.new_folder(), 0
    log = os.path.join(out, 'log.jsonl')
    for share in (0.2, 0.45, 0.7):
        arguments = suite.arguments('train', 'resume', settings, '--quiet', '--out', out, '--resume')
        child = subprocess.Popen([support.HEADROOM, *map(str, arguments)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, cwd=suite.folder.path)
        until = time.monotonic() + 60
        while child.poll() is None and lines_of(log) < share * steps and time.monotonic() < until:
            time.sleep(0.002)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            hits += 1
        child.wait()
    return suite.train('resume', settings, '--resume', out=out), hits


def lines_of(path):
    try:
        with open(path, 'rb') as file:
            return file.read().count(b'\n')
    except FileNotFoundError:
        return 0


def part_resume(suite):
    steps = ['--steps', resume_cases.STEPS]
    runs = []
    for settings in resume_cases.combinations(8):
        whole = suite.later(suite.train, 'resume', settings, *steps)
        runs.append((f'{settings} stopped', whole, suite.later(stopped, suite, settings)))
        runs.append((f'{settings} twice', whole, suite.later(suite.train, 'resume', settings, *steps)))
    # A run that other devices' checkpoints would not help: killed where it stands, in its two ways of holding state.
    count, kills = 300 if suite.device == 'cuda' else 60, []
    for settings in [['model.precision=bf16-mixed'],
                     ['model.precision=bf16-true', 'training.optimizer.kind=paged_adamw8bit', 'memory.offload.parameters=disk']]:
        settings = settings + [f'training.steps={count}', f'training.save_every={count // 12}']
        kills.append((settings, suite.later(suite.train, 'resume', settings), suite.later(killed, suite, settings, count)))
    for what, a, b in runs:
        same(suite, what, a.result(), b.result())
    for settings, whole, future in kills:
        result, hits = future.result()
        same(suite, 'killed', whole.result(), result)
        check(hits == 3, f'{settings}: {hits} of 3 kills were in the middle of the run')
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal_stops(suite, number)


def signal_stops(suite, number):
    """Saved, and the code says so."""
    out = suite.new_folder()
    settings = ['training.steps=100000']
    child = subprocess.Popen([support.HEADROOM, *map(str, suite.arguments('train', 'resume', settings, '--json', '--out', out))],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=suite.folder.path)
    while child.poll() is None and lines_of(os.path.join(out, 'log.jsonl')) < 20:
        time.sleep(0.002)
    child.send_signal(number)
    text, errors = child.communicate(timeout=60)
    if check(child.returncode == 128 + number, f'{number.name}: exit {child.returncode} {errors[:200]}'):
        at = json.loads(text)
        again = suite.train('resume', settings, '--resume', '--steps', at['steps'] + 5, out=out)
        whole = suite.train('resume', settings, '--steps', at['steps'] + 5)
        same(suite, f'stopped by {number.name}', whole, again)


# A recipe that names no device, and budgets of all tiers that leave a kind in part on the device, the host and the disk.
def part_here(suite):
    recipe = os.path.join(suite.folder.path, 'wide.yaml')
    line = 'the GPU of this machine' if suite.device == 'cuda' else ''
    suite.expect(suite.run('plan', recipe, '--auto'), 0, line)
    out = suite.new_folder()
    suite.expect(suite.run('train', recipe, '--auto', '--steps', 3, '--out', out), 0, line)
    large = ['model.config.hidden_size=1024', 'model.config.intermediate_size=2816', 'training.steps=4']
    state = 8 * 3 * (4 * 1024 * 1024 + 3 * 1024 * 2816) # about: two moments of three layers
    least = suite.answer(suite.run(*suite.arguments('plan', 'wide', large + ALL_ON['disk'], '--json')), 'least')
    if not least:
        return
    budgets = [f'memory.budget={least["device"]["peak_bytes"] + state // 8}', 'memory.disk_budget=8GiB',
               f'memory.host_budget={least["host"]["peak_bytes"] + state // 3}']
    auto = [f'memory.offload.{kind}=auto' for kind in KINDS]
    plain, tight = suite.train('wide', large), suite.train('wide', large + auto + budgets)
    same(suite, 'budgets of all tiers', plain, tight)
    answer = suite.answer(tight, 'budgets of all tiers')
    if answer:
        print(f'  device {answer["planned"]["peak_bytes"] / MIB:.1f} MiB planned, '
              f'{answer["measured"]["peak_bytes"] / MIB:.1f} held', flush=True)
        check(answer['measured']['peak_bytes'] <= answer['planned']['peak_bytes'], f'above the plan: {tight.command}')
    plan = suite.answer(suite.run(*suite.arguments('plan', 'wide', large + auto + budgets, '--json')), 'plan')
    if plan:
        tiers = [plan[tier]['peak_bytes'] - least[tier]['peak_bytes'] for tier in ('device', 'host', 'disk')]
        check(tiers[0] > 0 and tiers[1] > 0 and plan['disk']['peak_bytes'] > 0 and tiers[2] < 0,
              f'not in part on every tier: {tiers}')


# 16-mixed recovers from overflow, --check-numerics names what was not finite.
def part_numerics(suite):
    mixed = ['model.precision=16-mixed', 'training.loss_scale.init=1e12', 'training.loss_scale.backoff=0.1']
    runs = []
    for more in ([], ['memory.checkpoint=every-layer', *ALL_ON['host']], ['training.gradient_accumulation=2']):
        runs.append([suite.later(suite.train, 'wide', mixed + more, '--steps', steps) for steps in (24, 1, 2)])
    checked = []
    for precision in PRECISIONS:
        common = [f'model.precision={precision}']
        checked.append([suite.later(suite.train, 'wide', common), suite.later(suite.train, 'wide', common, '--check-numerics'),
                        None if precision == '16-mixed' else  # there a step that overflows is skipped
                        suite.later(suite.train, 'wide', common + ['training.optimizer={kind: sgd, lr: 1000}'],
                                    '--check-numerics', '--steps', 60)])
    for futures in runs:
        result, one, two = (future.result() for future in futures)
        same(suite, 'skipped steps change no weight', one, two)
        if not suite.answer(result, 'overflow'):
            continue
        losses, norms = log_of(result.folder), log_of(result.folder, 'grad_norm')
        scales = log_of(result.folder, 'loss_scale')
        lost = norms.count(None)
        check(1 < lost < 16 and norms[:lost] == [None] * lost, f'{lost} steps lost to overflow: {result.command}')
        check(None not in losses and losses[-1] < losses[0] - 0.5, f'losses {losses}: {result.command}')
        check(scales and scales[-1] < scales[0] * 0.2 ** lost, f'loss scale {scales}: {result.command}')
    for plain, fine, blown in checked:
        same(suite, '--check-numerics changes nothing', plain.result(), fine.result())
        if blown:
            suite.expect(blown.result(), 1, 'module ', 'node ', ' NaN')


# Refusals, before anything is written.
def part_bad(suite):
    before = suite.folder.listing()
    plan = suite.answer(suite.run(*suite.arguments('plan', 'planned', [], '--json')), 'plan')
    if plan:
        device = plan['device']
        small = f'memory.budget={device["fixed_bytes"] + int(0.7 * (device["peak_bytes"] - device["fixed_bytes"]))}'
        suite.expect(suite.run(*suite.arguments('plan', 'planned', [small])), 3, 'does not fit', 'largest tensors', '--set ')
        refused = suite.train('planned', [small])
        suite.expect(refused, 3, 'HR_NO_FIT', 'largest_buffers')
        plan = suite.run(*suite.arguments('plan', 'planned', [small], '--json'))
        suite.expect(plan, 3)
        changes = plan.json().get('changes', [])
        check(changes, f'no change would fit: {plan.command}')
        for change in changes[:3]:
            suite.expect(suite.run(*suite.arguments('plan', 'planned', [small, *change['set']], '--json')), 0)
    suite.expect(suite.train('planned', ['memory.budget=1']), 3, 'HR_NO_FIT')
    for tier in ('host', 'disk'):
        small = [f'memory.offload.optimizer={tier}', f'memory.{tier}_budget=1KiB']
        suite.expect(suite.train('planned', small), 3, f'memory.{tier}_budget')
        suite.expect(suite.run(*suite.arguments('profile', 'planned', small)), 3, f'memory.{tier}_budget')
    absent = ['memory.offload.optimizer=disk', 'memory.offload_folder=' + os.path.join(suite.folder.path, 'absent')]
    suite.expect(suite.train('planned', absent), 5, 'memory.offload_folder', 'a folder that exists')
    # A GPU that is only planned for, and a plug-in that is not there or is none.
    suite.expect(suite.train('tiny', ['memory.gpu=L4'], device='cuda'), 5, 'cannot be run')
    for plugin, said in [('absent.so', 'HEADROOM_CUDA_PLUGIN'), ('tiny.yaml', 'the CUDA plug-in cannot be loaded')]:
        plugin = os.path.join(suite.folder.path, plugin)
        arguments = suite.arguments('train', 'tiny', [], '--out', suite.new_folder(), device='cuda')
        result = suite.run(*arguments, env={'HEADROOM_CUDA_PLUGIN': plugin})
        suite.expect(result, 1, 'error: ', said)
        planned = suite.arguments('plan', 'tiny', [], '--gpu', 'L4', '--json')
        suite.expect(suite.run(*planned, env={'HEADROOM_CUDA_PLUGIN': plugin}), 0)
    check(suite.folder.listing() == before, f'written: {sorted(set(suite.folder.listing()) - set(before))}')


# Evaluation, accumulation and lines of different lengths: as on the CPU, and the same bits with other settings.
def part_data(suite):
    lines = ['data.source=lines', 'data.buckets=[8, 16, 24]']
    cases = [['training.eval_every=3', 'training.eval_batches=2'],
             ['training.gradient_accumulation={0: 3, 1: 2, 2: 1}', 'training.eval_every=4'],
             ['training.effective_batch=12'],
             lines,
             lines + ['training.gradient_accumulation=2', 'training.eval_every=5'],
             ['data.source=lines', 'training.gradient_accumulation={0: 2, 1: 1}'],
             lines + ['training.optimizer.groups=[{match: layers.0.*, lr: 2e-3, weight_decay: 0}]']]
    runs = []
    for case in cases:
        for precision in ('32-true', 'bf16-true') if case[0] != lines[0] else ('32-true',):
            settings = [f'model.precision={precision}', *case]
            runs.append((settings, suite.later(suite.train, 'resume', settings, device='cpu'),
                         suite.later(suite.train, 'resume', settings),
                         suite.later(suite.train, 'resume', settings + ['memory.checkpoint=every-layer', *ALL_ON['host']])))
    for settings, cpu, plain, other in runs:
        limit = tolerance(settings)
        near(suite, 'on the CPU', cpu.result(), plain.result(), limit)
        if any('eval' in setting for setting in settings):
            near(suite, 'on the CPU', cpu.result(), plain.result(), limit, 'eval_loss')
        check(log_of(cpu.result().folder, 'tokens') == log_of(plain.result().folder, 'tokens'), f'{settings}: tokens')
        same(suite, 'every-layer, all on the host', plain.result(), other.result())
        check(log_of(plain.result().folder, 'eval_loss') == log_of(other.result().folder, 'eval_loss'),
              f'{settings}: other held-out losses: {other.result().command}')


class Driver:
    """NVML: the bytes that are used on the first GPU, by whomever. None without a GPU."""

    class Memory(ctypes.Structure):
        _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]

    def __init__(self):
        self.library, self.device = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.c_void_p()
        if self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
            raise OSError('no GPU')

    def used(self):
        memory = self.Memory()
        code = self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory))
        return memory.used if code == 0 else None


def resident(pid):
    """Anonymous bytes of a process."""
    try:
        with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith('RssAnon')), None)
    except (FileNotFoundError, ProcessLookupError):
        return None


# Many steps take what few take.
def part_steady(suite):
    driver = Driver() if suite.device == 'cuda' else None
    steps = 1500 if suite.device == 'cuda' else 150
    for settings in [[], ['model.precision=bf16-true', 'memory.checkpoint=selective', 'memory.offload.optimizer=host',
                          'memory.offload.activations=disk']]:
        out = suite.new_folder()
        few = suite.answer(suite.train('resume', settings, '--steps', 3), 'few steps')
        arguments = suite.arguments('train', 'resume', settings, '--json', '--out', out, '--steps', steps)
        child = subprocess.Popen([support.HEADROOM, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE, cwd=suite.folder.path)
        seen = []
        while child.poll() is None:
            step = lines_of(os.path.join(out, 'log.jsonl'))
            now = step, driver.used() if driver else 0, resident(child.pid)
            if 20 <= step < steps - 10 and None not in now:  # the end saves, which is another phase
                seen.append(now)
            time.sleep(0.005)
        text, errors = child.communicate()
        if not check(child.returncode == 0, f'{settings}: exit {child.returncode}: {errors[:300]}'):
            continue
        answer = json.loads(text)
        if check(seen and seen[-1][0] - seen[0][0] > steps // 3, f'{settings}: seen {len(seen)} times'):
            print(f'  steps {seen[0][0]} to {seen[-1][0]}: device {seen[0][1] / MIB:.1f} to {seen[-1][1] / MIB:.1f} MiB, '
                  f'host {seen[0][2] / MIB:.2f} to {seen[-1][2] / MIB:.2f} MiB', flush=True)
            check(len({used for _, used, _ in seen}) == 1, f'{settings}: device memory moved: {seen[0]} to {seen[-1]}')
            check(seen[-1][2] - seen[0][2] <= MIB // 4, f'{settings}: the process grew from {seen[0]} to {seen[-1]}')
        if few and suite.device == 'cuda':
            check(answer['measured']['peak_bytes'] == few['measured']['peak_bytes'],
                  f'{settings}: 3 steps held {few["measured"]["peak_bytes"]}, {steps} {answer["measured"]["peak_bytes"]}')
        check(answer['measured']['peak_bytes'] <= answer['planned']['peak_bytes'], f'{settings}: above the plan: {answer}')


# name, function, whether its processes are alone on the device
def part_generate(suite):
    """Tokens as on the CPU, where rounding does not decide (f32); prompts read in pieces, in a batch, over keys in parts; samples
    that change nothing of a training. The program itself looks at memory: exit code 4."""
    prompts = ['And God said', 'In', 'the waters of the deep ' * 20]
    base = suite.train('wide', [], out=suite.new_folder())
    path = [f'model.path={base.folder}/generation-00000010', 'data.tokenizer=bytes']
    for settings in [[], [*path, LORA], [*path, LORA, NF4]]:
        trained = suite.train('wide', settings)
        if not suite.answer(trained, 'train'):
            continue

        def texts(device, *more):
            result = suite.run('generate', trained.folder, '--json', '--max-tokens', '64', '--set', f'memory.device={device}',
                               *(word for prompt in prompts for word in ('--prompt', prompt)), *more)
            return [one['text'] for one in suite.answer(result, 'generate').get('answers', [])]

        expected = texts('cpu')
        for more in [(), ('--batch', '1'), ('--max-context', '2000'), ('--batch', '2', '--max-context', '1000')]:
            got = texts(suite.device, *more)
            check(got == expected, f'{settings} {more}: {got} on {suite.device}, {expected} on the CPU')
        narrow = texts(suite.device, '--set', 'model.precision=bf16-true')
        check(len(narrow) == len(prompts) and all(narrow), f'{settings}: bf16 gives {narrow}')
    every = ['training.generation_every=3', 'training.generation_prompts=["And God said", "In"]', 'training.generation_tokens=20']
    for settings in [[], ['model.precision=bf16-mixed', 'memory.checkpoint=every-layer'], [*ALL_ON['host']]]:
        plain = suite.answer(suite.train('wide', settings), 'plain')
        told = suite.answer(suite.train('wide', settings + every), 'with samples')
        check(plain.get('weights_sha256') == told.get('weights_sha256'), f'{settings}: samples change the training')


PARTS = [('memory', part_memory, True), ('generate', part_generate, True), ('here', part_here, True), ('steady', part_steady, True), ('bad', part_bad, True),
         ('numerics', part_numerics, False), ('bits', part_bits, False), ('near', part_near, False),
         ('against', part_against, False), ('resume', part_resume, False), ('data', part_data, False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('parts', nargs='*', metavar='PART', help=', '.join(name for name, _, _ in PARTS))
    parser.add_argument('--out', help='folder for suite.txt')
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda')
    parser.add_argument('--jobs', type=int, default=min(8, os.cpu_count() or 1), help='processes at once')
    options = parser.parse_args()
    unknown = set(options.parts) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error(f'no such part: {", ".join(sorted(unknown))}')
    support.HEADROOM = os.path.abspath(os.environ.get('HEADROOM', os.path.join(support.ROOT, 'build', 'headroom')))
    os.environ.setdefault('HEADROOM_THREADS', str(min(4, os.cpu_count() or 1)))  # several processes share the cores
    table = []
    with Folder() as folder:
        options.out = os.path.abspath(options.out or os.getcwd())
        os.makedirs(options.out, exist_ok=True)
        # Seconds are not what is looked at here: with no place to keep rates none are measured, for every recipe anew.
        os.environ.pop('XDG_CACHE_HOME', None)
        os.environ.pop('HOME', None)
        suite = Suite(options, folder)
        begun = time.monotonic()
        started = suite.answer(suite.train('tiny', []), 'start')
        table.append(('start', support.checks, len(support.failures), time.monotonic() - begun))
        for name, part, alone in PARTS if started else []:
            if options.parts and name not in options.parts:
                continue
            print(name, flush=True)
            suite.alone, begun = alone, time.monotonic()
            checks, failures = support.checks, len(support.failures)
            try:
                part(suite)
            except Exception as error:  # the other parts still tell
                check(False, f'{name}: {type(error).__name__}: {error}')
            table.append((name, support.checks - checks, len(support.failures) - failures, time.monotonic() - begun))
        suite.pool.shutdown()
    print(f'{"part":10} {"checks":>7} {"failures":>9} {"seconds":>8}')
    table.append(('all', *(sum(row[i] for row in table) for i in (1, 2, 3))))
    for row in table:
        print('%-10s %7d %9d %8.1f' % row)
    sys.exit(1 if support.failures else 0)


if __name__ == '__main__':
    main()

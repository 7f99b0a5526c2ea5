"""What was measured of models.py beside what `headroom plan` says of their traces: the table in docs/torch.md."""
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
HEADROOM = os.path.join(HERE, '..', '..', 'build', 'headroom')


def planned(paths, batch=None):
    command = [HEADROOM, 'plan', *paths, '--gpu', 'H200', '--json'] + (['--batch', str(batch)] if batch else [])
    run = subprocess.run(command, capture_output=True, text=True)
    if not run.stdout.startswith('{'):
        raise SystemExit('%s: %s' % (' '.join(command), run.stderr.strip()))
    return json.loads(run.stdout)['torch']


def beside(plan, row):
    cells = []
    for key, digits in (('allocated_bytes', 1), ('reserved_bytes', 0)):
        cells += ['%.*f' % (digits, plan[key] / (1 << 20)), '%.*f' % (digits, row[key] / (1 << 20)), '%+.2f %%' % (100 * (plan[key] / row[key] - 1))]
    return cells


def report(measured, folder, batches):
    """Each model at its largest batch size, and that between from the traces of the two around it."""
    with open(measured) as file:
        rows = {(row['model'], row['batch']): row for row in map(json.loads, file) if 'failed' not in row}
    path = lambda name, batch: os.path.join(folder, '%s-%d.json' % (name, batch))
    print('| model | batch | allocated | measured | | reserved | measured | |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
    for model, (low, high, middle) in batches.items():
        name = model.__name__
        for batch in (low, high):
            print('| %s |' % ' | '.join([name, str(batch)] + beside(planned([path(name, batch)]), rows[name, batch])))
        print('| %s |' % ' | '.join([name, '%d, between' % middle] +
                                    beside(planned([path(name, low), path(name, high)], middle), rows[name, middle])))

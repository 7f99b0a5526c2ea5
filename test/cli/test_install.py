#!/usr/bin/env python3
"""What is installed, wherever that is, is found there by pkg-config."""
import os
import shutil
import subprocess
import sys

from support import HEADROOM, Folder, check, finish

BUILD = os.path.dirname(HEADROOM)
if not os.path.exists(os.path.join(BUILD, 'libheadroom.a')) or not (shutil.which('cmake') and shutil.which('pkg-config')):
    sys.exit(77)

with Folder() as folder:
    prefix = os.path.join(folder.path, 'elsewhere')
    done = subprocess.run(['cmake', '--install', BUILD, '--prefix', prefix], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f'install: {done.stdout} {done.stderr}')
    paths = [os.path.join(place, 'pkgconfig') for place, _, _ in os.walk(prefix)]

    def variable(name):
        return subprocess.run(['pkg-config', f'--variable={name}', 'headroom'], capture_output=True, text=True, check=False,
                              env={**os.environ, 'PKG_CONFIG_PATH': ':'.join(paths)}).stdout.strip()

    for name, wanted in [('libdir', 'libheadroom.a'), ('includedir', 'headroom.h')]:
        found = os.path.realpath(os.path.join(variable(name) or '/nowhere', wanted))
        check(found.startswith(os.path.realpath(prefix)) and os.path.exists(found), f'{name}: {found}')
    check(os.access(os.path.join(prefix, 'bin', 'headroom'), os.X_OK), 'the program')
finish()

#!/usr/bin/env python3
"""What training steps of your own ask of PyTorch's memory on a GPU, traced without one.

    with headroom_trace("out.json"):                    # around everything: building the model, a few steps
        main()
    torch_trace.py script.py:function -o out.json       # the same for a function of a script
    torch_trace.py script.py:function -o out.json --batch 2,4,8      # out-2.json, ...: function(batch)
    torch_trace.py --snapshot memory.pickle -o out.json # what torch.cuda.memory recorded on a GPU
    headroom plan out.json --gpu 4090

Your code runs as it is, on tensors that have sizes and devices but no contents (FakeTensorMode): real modules, real
autograd, real optimizers. Every storage on CUDA becomes an allocate and a free in the file, with the module and the call
that made it; headroom replays them through PyTorch's allocator. A function may run its steps itself, or return a function
that runs one, which is then called --steps times (4: what is reserved settles in the third).

What depends on contents has none: item(), `if loss > 0` and the like get 0, and the file says at which lines. Shapes that depend
on contents (nonzero, boolean masks) end the trace with the line; --nonzero SHARE takes that share of the elements.
Scratch of libraries is added by rule (cuBLAS, attention, embeddings, convolutions but for sums of parts); that of sorting and a few others
is not known, and the file names the calls. Build optimizers after the model is on the GPU.

Written for PyTorch 2.15 on Linux; an older one that lacks what is needed is refused. Where the machine has no GPU, two functions of its
library are replaced in memory (traced/pretend.py): the autograd engine would ask the driver for streams.
"""
import argparse
import contextlib
import gc
import importlib.util
import inspect
import os
import sys
import traceback
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from traced.format import write


@contextlib.contextmanager
def backward_phases(tracer):
    """Notes when the autograd engine runs."""
    import torch
    engine = torch.autograd._engine_run_backward

    def run(*args, **kwargs):
        before = tracer.phase
        tracer.backward += 1
        if tracer.backward == 1:
            tracer.mark('backward')
        try:
            return engine(*args, **kwargs)
        finally:
            tracer.backward -= 1
            if tracer.backward == 0:
                tracer.mark(before)
    torch.autograd._engine_run_backward = run
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = engine


@contextlib.contextmanager
def hooks(tracer):
    import torch.nn.modules.module as modules
    import torch.optim.optimizer as optimizers
    held = [modules.register_module_forward_pre_hook(tracer.forward_begins),
            modules.register_module_forward_hook(tracer.forward_ends, always_call=True),
            optimizers.register_optimizer_step_pre_hook(tracer.update_begins),
            optimizers.register_optimizer_step_post_hook(tracer.update_ends)]
    try:
        yield
    finally:
        for hook in held:
            hook.remove()


class Failed(Exception):
    """The user's code does not run on tensors without contents."""


def explain(error, tracer_module):
    """What the user's code ran into, with its line."""
    line = tracer_module.line_of_user(traceback.extract_tb(error.__traceback__)) or 'no line of yours'
    kind = type(error).__name__
    if kind in ('DynamicOutputShapeException', 'DataDependentOutputException'):
        return '%s\n  the shape or the way from here depends on contents (%s), which a trace does not have; ' \
               '--nonzero SHARE takes a share of the elements where that is nonzero' % (line, error)
    return '%s\n  %s: %s' % (line, kind, str(error)[:2000])


@contextlib.contextmanager
def headroom_trace(path, batch=None, capability=90, nonzero=None):
    """Traces what runs inside into a file for `headroom plan` (None: into none, the events are the tracer's). `batch`: what the
    batch size is, for comparing traces; `capability`: of the GPU (90: Hopper, 89: Ada, 80: A100), by which kernels of attention and workspaces are chosen. Gives an
    object whose next_step() says that a training step begins (otherwise one does with the first forward pass after an update)."""
    from traced import four_bit, kernels, pretend, streams, tracer as tracers
    pretend.engine_alone()
    tracer, fake = tracers.Tracer(capability, nonzero), pretend.size_only_tensors()
    side = streams.streams(tracer)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with pretend.gpu(capability, tracer.empty_cache), pretend.recurrent(tracer.note), \
                pretend.cells(), pretend.scripted(), four_bit.without_contents(), side, hooks(tracer), backward_phases(tracer):
            gc.disable()  # when cycles are found would be chance: they are looked for where steps begin
            try:
                with kernels.as_on_a_gpu(capability, tracer), fake, tracer:
                    yield tracer
            except (SystemExit, KeyboardInterrupt):
                raise
            except Exception as error:
                raise Failed(explain(error, tracers)) from error
            finally:
                gc.enable()
            if path is not None:
                write(path, tracer.document(batch))


def function_of(target):
    """script.py:function, imported as a module of its own name."""
    path, _, name = target.rpartition(':')
    if not path or not name.isidentifier():
        raise SystemExit('torch_trace: %s is not of the form script.py:function' % target)
    if not os.path.isfile(path):
        raise SystemExit('torch_trace: there is no file %s' % path)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise SystemExit('torch_trace: %s has no function %s' % (path, name))
    return getattr(module, name)


def trace(function, path, batch, options):
    with headroom_trace(path, batch, options.capability, options.nonzero) as tracer:
        step = function(batch) if batch is not None else function()
        if callable(step):
            for _ in range(options.steps):
                tracer.next_step()
                step()
        del step
    gc.collect()
    print('%s: %d events%s%s' % (path, len(tracer.events),
                                 ', %d lines depend on contents' % len(tracer.guesses) if tracer.guesses else '',
                                 ', scratch of %d kinds of calls is not counted' % len(tracer.unmodelled)
                                 if tracer.unmodelled else ''))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('target', nargs='?', metavar='SCRIPT:FUNCTION')
    parser.add_argument('-o', '--out', default='trace.json', help='the file to write (trace.json)')
    parser.add_argument('--batch', help='batch sizes, given to the function: 4, or 2,4,8 for a file each')
    parser.add_argument('--steps', type=int, default=4, help='steps, where the function returns one (4)')
    parser.add_argument('--capability', default='9.0', help='compute capability of the GPU (9.0)')
    parser.add_argument('--nonzero', type=float, help='share of elements that nonzero and masks find')
    parser.add_argument('--snapshot', metavar='PICKLE', help="convert a snapshot of torch.cuda.memory instead; only one of yours")
    options = parser.parse_args()
    options.capability = round(float(options.capability) * 10)
    if options.snapshot:
        from traced import snapshot
        try:
            write(options.out, snapshot.document(options.snapshot))
        except (OSError, ValueError, KeyError, TypeError, snapshot.pickle.UnpicklingError, EOFError) as error:
            sys.exit('torch_trace: %s is no snapshot of torch.cuda.memory that can be read: %s' % (options.snapshot, error))
        return
    if not options.target:
        parser.error('give script.py:function, or --snapshot')
    function = function_of(options.target)
    sizes = [int(b) for b in options.batch.split(',')] if options.batch else [None]
    if sizes[0] is not None and not inspect.signature(function).parameters:
        parser.error('with --batch the function takes the batch size')
    stem, ending = os.path.splitext(options.out)
    for size in sizes:
        trace(function, options.out if len(sizes) == 1 else '%s-%d%s' % (stem, size, ending), size, options)


if __name__ == '__main__':
    try:
        main()
    except Exception as error:
        if type(error).__name__ not in ('Failed', 'NoWay'):
            raise
        sys.exit('torch_trace: %s' % error)

"""A dispatch mode that writes every storage on CUDA down: allocate, free, with module and call. See ../torch_trace.py."""
import bisect
import gc
import itertools
import os
import platform
import traceback
import weakref

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils._python_dispatch import TorchDispatchMode

from . import contents
from .format import ALLOCATE, CATEGORIES, EMPTY_CACHE, FORMAT, FREE, MARK, PHASES
from .kernels import BEFORE, SCRATCH, SCRATCH_FIRST, SCRATCH_IN_TURN, unpacks
from .pretend import libraries_as_on_a_gpu

MIB = 1 << 20
TORCH = os.path.dirname(torch.__file__)
TOOL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PRODUCTS = {'aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm', 'aten::_addmm_activation', 'aten::addmv', 'aten::mv',
            'aten::dot', 'aten::linear', 'aten::_int_mm', 'aten::_scaled_mm', 'aten::_grouped_mm'}
LT_APART = torch.torch_version.TorchVersion(torch.__version__) < (2, 15)  # products with a bias have a workspace of their own
# Calls with scratch on the GPU that no rule here knows: a trace that has them is an estimate.
UNMODELLED = {'aten::' + name: why for why, names in {
    "cuDNN's workspace beyond copies of its operands": 'convolution convolution_backward',
    "cuDNN's workspace": '_ctc_loss',
    "what cuDNN keeps in place of the single steps that are traced": 'lstm gru rnn_tanh rnn_relu',
    'scratch of sorting and scanning': 'sort topk argsort unique_dim _unique2 cumsum cumprod kthvalue median mode '
                                       'index_put_ _index_put_impl_ nonzero multinomial randperm bincount histc',
    'scratch of linear algebra and FFT': '_fft_r2c _fft_c2c _fft_c2r linalg_svd _linalg_svd linalg_qr _linalg_eigh '
                                         'linalg_inv_ex linalg_cholesky_ex linalg_lu_factor_ex _linalg_solve_ex',
}.items() for name in names.split()}


def nbytes(tensor):
    return tensor.numel() * tensor.element_size() if isinstance(tensor, torch.Tensor) else 0


INIT = os.path.join(TORCH, 'nn', 'init.py')
LAST_FIRST = {'aten::native_dropout',          # its kernel makes the mask before the result
              'bitsandbytes::quantize_4bit', 'bitsandbytes::quantize_blockwise'}  # and these statistics before bytes
QUESTIONS = {'aten::_local_scalar_dense': 'item', 'aten::equal': 'equal'}


def line_of_user(frames):
    """The innermost line that is neither of a library nor of this tool: 'file:line: text'."""
    for frame in reversed(frames):
        if 'site-packages' not in frame.filename and not frame.filename.startswith((TORCH, TOOL, '<')) and \
                os.sep + 'lib' + os.sep + 'python' not in frame.filename:
            return '%s:%d: %s' % (frame.filename, frame.lineno, frame.line)
    return None


class Tracer(TorchDispatchMode):
    """The list of events, and what is known of every storage."""

    def __init__(self, capability, nonzero):
        super().__init__()
        self.events, self.names, self.numbers = [], [], {}
        self.made = []       # by id: the event that allocates it
        self.live = {}       # storage's address -> (weak reference, id)
        self.holders = {}    # id -> storages that have it, where several do
        self.workspaces = set()
        self.capability, self.nonzero = capability, nonzero
        self.guesses, self.unmodelled = {}, {}
        self.backward, self.stack, self.paths = 0, [], weakref.WeakKeyDictionary()
        self.borders, self.border_owners = [], []  # sequence numbers of autograd at which a module begins or ends
        self.step, self.updated, self.phase = 0, True, 'build'
        self.counting = False  # steps are counted by the caller
        self.stream = 0        # that runs: traced/streams.py
        self.linear = 0        # F.linear runs
        self.fewest_owners = None  # of the first operand of a sum of gradients
        self.name('')

    def name(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.names)
            self.names.append(text)
        return self.numbers[text]

    def owner(self):
        """The module that runs, or in backward that which made the node that runs."""
        if self.stack:
            return self.stack[-1]
        node = torch._C._current_autograd_node() if self.backward else None
        if node is not None and self.borders:
            at = bisect.bisect_right(self.borders, node._sequence_nr()) - 1
            return self.border_owners[at] if at >= 0 else ''
        return ''

    def allocate(self, size, call, category=None):
        if category is None:
            category = {'build': 'other', 'save': 'other', 'optimizer': 'optimizer'}.get(self.phase, 'activations')
        if self.backward and not call.startswith('cublas'):
            call = 'backward: ' + call
        event = [ALLOCATE, size, CATEGORIES.index(category), self.name(self.owner()), self.name(call)]
        if self.stream:
            event.append(self.stream)
        self.made.append(event)
        self.events.append(event)
        return len(self.made) - 1

    def free(self, number):
        self.events.append([FREE, number])

    def mark(self, phase):
        self.phase = phase
        self.events.append([MARK, PHASES.index(phase), self.step])

    def drop(self, key, number):
        self.live.pop(key, None)
        left = self.holders.pop(number, 1) - 1
        if left:
            self.holders[number] = left
        else:
            self.free(number)

    def track(self, tensor, call, onto=None):
        """Notes the storage of a tensor where it is new; `onto`: it is that of an allocation there is."""
        if tensor.device.type != 'cuda' or tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.live:
            return
        if onto is not None:
            number = onto
            self.holders[number] = self.holders.get(number, 1) + 1
        else:
            number = self.allocate(storage.nbytes(), call)
        self.live[key] = weakref.ref(storage, lambda _: self.drop(key, number)), number

    def become(self, tensor, category, owner=None):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != 'cuda' or tensor.layout != torch.strided:
            return
        if tensor.untyped_storage()._cdata not in self.live:
            self.track(tensor, 'before the trace')
        event = self.made[self.live[tensor.untyped_storage()._cdata][1]]
        event[2] = CATEGORIES.index(category)
        if owner is not None:
            event[3] = self.name(owner)

    def in_place_sum(self, name, function, args):
        """The engine adds gradients of branches, and those of further micro-steps, in place where nobody else holds the first;
        of tensors without contents it makes new ones. The id that the sum has then."""
        if self.linear and name == 'aten::add' and args[0].device.type == 'cuda':  # the bias, to a product of what is not contiguous
            return self.live[args[0].untyped_storage()._cdata][1]
        if not self.backward or name != 'aten::add' or function._overloadname != 'Tensor' or torch.is_grad_enabled():
            return None
        first, second = args[:2]
        if not isinstance(second, torch.Tensor) or first.shape != second.shape or first.device.type != 'cuda':
            return None
        owners = first._use_count()  # the engine, and who hands it on to here: as many as PyTorch's version has of them
        self.fewest_owners = min(owners, self.fewest_owners or owners)
        storage = first.untyped_storage()
        held = self.live.get(storage._cdata)
        alone = owners == self.fewest_owners and torch._C._storage_Use_Count(storage._cdata) <= 2  # `first`, `storage`
        return held[1] if held and alone else None

    def multiplies(self, name, args, words):
        """Whether a call is a product of cuBLAS, and whether it adds a bias."""
        if name == 'bitsandbytes::gemm_4bit':
            return unpacks(args[0], args[2], args[4]), (args[6] if len(args) > 6 else words.get('bias')) is not None
        return name in PRODUCTS, name == 'aten::addmm' and args[0].dim() == 1

    def workspace(self, args, biased):
        """What libraries keep for each thread that multiplies, taken once a product has a result."""
        thread = 'backward' if self.backward else 'forward'
        if not any(isinstance(t, torch.Tensor) and t.device.type == 'cuda' for t in args):
            return
        taken = [('cublas workspace', 32 * MIB if self.capability // 10 in (9, 10, 12) else 8519680)]
        if LT_APART and biased:
            taken.append(('cublasLt workspace', MIB))
        for library, size in taken:
            if (library, thread) not in self.workspaces:
                self.workspaces.add((library, thread))
                self.allocate(size, library, 'workspace')

    def note(self, name):
        self.unmodelled[name] = self.unmodelled.get(name, 0) + 1

    def line(self):
        return line_of_user(traceback.extract_stack()) or 'a library'

    def answer(self, function, name, args):
        """item() and the like: from contents where they are known, else 0, and a note of the line."""
        known = [contents.of(t) for t in args if isinstance(t, torch.Tensor)]
        if all(k is not None for k in known):
            with contents.unset_fake_temporarily():
                return known[0].item() if name == 'item' else torch.equal(*known)
        try:
            return function(*args)  # constants
        except DataDependentOutputException:
            pass
        if not any(frame.filename == INIT for frame in traceback.extract_stack()):  # first values change no size
            self.guesses['%s gets 0: %s' % (name, self.line())] = True
        kind = args[0].dtype
        return False if kind == torch.bool or name == 'equal' else 0.0 if kind.is_floating_point else 0

    def places(self, mask):
        """nonzero(): as many as there are, or the share that the user gave; None: neither is known."""
        out = contents.nonzero(mask)
        if out is None and self.nonzero is not None:
            self.guesses['nonzero finds %g of the elements: %s' % (self.nonzero, self.line())] = True
            out = torch.empty((max(1, round(mask.numel() * self.nonzero)), mask.dim()), dtype=torch.int64, device=mask.device)
        return out

    def indices(self, given):
        """Boolean masks among indices become places, as CUDA makes them first; None: how many is not known."""
        taken = []
        for index in given:
            if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
                found = self.places(index)
                if found is None:
                    return None
                self.track(found, 'aten::nonzero')
                taken += list(found.unbind(1))
            else:
                taken.append(index)
        return taken

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        gpu = any(isinstance(t, torch.Tensor) and t.device.type == 'cuda' for t in args)
        if name in QUESTIONS and isinstance(args[0], torch.Tensor):
            return self.answer(function, QUESTIONS[name], args)
        if name == 'aten::nonzero':
            out = self.places(args[0])
            if out is not None:
                self.track(out, name)
                return out
        if name == 'aten::index':
            args = (args[0], self.indices(args[1]) or args[1]) + tuple(args[2:])
        if gpu and name in UNMODELLED and nbytes(args[0]) >= MIB:  # scratch is of the order of what it works on
            self.note(name)
        onto = self.in_place_sum(name, function, args)
        sizes = SCRATCH[name](*args, **kwargs) if name in SCRATCH and gpu else []
        before = [self.allocate(size, name + ' (copy)', 'workspace') for size in (BEFORE[name](*args, **kwargs) if name in BEFORE and gpu else [])]
        scratch = [self.allocate(size, name + ' (scratch)', 'workspace') for size in sizes if name in SCRATCH_FIRST]
        out = function(*args, **kwargs)
        made = pytree.tree_leaves(out)
        for tensor in reversed(made) if name in LAST_FIRST else made:
            if isinstance(tensor, torch.Tensor):
                self.track(tensor, name, onto)
        if name in SCRATCH_IN_TURN:
            for size in sizes:
                self.free(self.allocate(size, name + ' (scratch)', 'workspace'))
        elif name not in SCRATCH_FIRST:
            scratch = [self.allocate(size, name + ' (scratch)', 'workspace') for size in sizes]
        product, biased = self.multiplies(name, args, kwargs)
        if product:
            self.workspace(args, biased)
        for number in reversed(before + scratch):
            self.free(number)
        contents.follow(function, args, kwargs, out)
        return out

    # ---- modules, phases, steps ----

    def border(self):
        if not self.backward:
            self.borders.append(torch._C._autograd._get_sequence_nr())
            self.border_owners.append(self.stack[-1] if self.stack else '')

    def forward_begins(self, module, args):
        if not self.stack and not self.backward:
            libraries_as_on_a_gpu()
            if module not in self.paths:
                for path, inner in module.named_modules():
                    self.paths[inner] = path or type(module).__name__
                    for tensor in list(inner._parameters.values()) + list(inner._buffers.values()):
                        self.become(tensor, 'parameters', path)
            if self.updated and torch.is_grad_enabled() and not self.counting:
                self.step, self.updated = self.step + 1, False
            self.mark('forward' if torch.is_grad_enabled() else 'eval')
            for tensor in pytree.tree_leaves(args):
                if isinstance(tensor, torch.Tensor) and not tensor.requires_grad and tensor.grad_fn is None:
                    self.become(tensor, 'inputs')
        self.stack.append(self.paths.get(module, type(module).__name__))
        self.border()

    def forward_ends(self, module, args, out):
        if self.stack:
            self.stack.pop()
        self.border()

    def module_of(self, parameter):
        held = self.live.get(parameter.untyped_storage()._cdata)
        return self.names[self.made[held[1]][3]] if held else None

    def update_begins(self, optimizer, args, kwargs):
        for p in (p for group in optimizer.param_groups for p in group['params']):
            if hasattr(p, 'headroom_moved'):
                raise RuntimeError('the optimizer was built before the model was moved to the GPU: build it afterwards')
            if p.grad is not None:
                self.become(p.grad, 'gradients', self.module_of(p))
        self.mark('optimizer')

    def update_ends(self, optimizer, args, kwargs):
        for p, states in optimizer.state.items():
            for tensor in pytree.tree_leaves(states):
                self.become(tensor, 'optimizer', self.module_of(p))
        self.updated = True

    def next_step(self):
        """A training step begins: said by who runs them."""
        gc.collect()
        self.step, self.counting = self.step + 1, True
        self.mark('forward')

    def empty_cache(self):
        self.events.append([EMPTY_CACHE])

    def in_order(self):
        """Frees that follow each other come in the order of what they free: which goes first is chance, and all the same."""
        events = []
        for kind, run in itertools.groupby(self.events, key=lambda e: e[0] == FREE):
            events += sorted(run) if kind else run
        return events

    def document(self, batch):
        return {
            'format': FORMAT, 'source': 'size-only tensors', 'batch': batch, 'capability': self.capability,
            'versions': {'torch': torch.__version__, 'python': platform.python_version()},
            'guesses': list(self.guesses),
            'unmodelled': ['%s (%d calls): %s is not counted' % (name, count, UNMODELLED[name])
                           for name, count in sorted(self.unmodelled.items())],
            'categories': CATEGORIES, 'phases': PHASES, 'names': self.names, 'events': self.in_order(),
        }

/* For ops that take neighbours along in a recording (hr_cuda_launcher.take): which launch stands where, and what lies
 * on what. */
#ifndef HR_DEV_CUDA_NEIGHBOURS_CUH
#define HR_DEV_CUDA_NEIGHBOURS_CUH

#include "dev/cuda/launch.cuh"

struct span {
  const char *from, *end;
};

static span span_of(const hr_tensor &tensor) {
#define HR_DTYPE_BYTES(code, name, file_name, bytes) bytes,
  static const size_t bytes[] = {HR_DTYPE_MAP(HR_DTYPE_BYTES)};
#undef HR_DTYPE_BYTES
  const char *from = (const char *)tensor.data;
  return {from, from ? from + (size_t)desc_count(tensor.desc) * bytes[tensor.desc.dtype] : from};
}

static bool overlap(span a, span b) {
  return a.from < b.end && b.from < a.end;
}

/* Whether a result of the call lies on `tensor`. */
static bool writes(const hr_call *call, const hr_tensor &tensor) {
  if (!call) return false;
  for (int i = 0; i < call->n_out; i++)
    if (overlap(span_of(call->out[i]), span_of(tensor))) return true;
  return false;
}

/* The call of launch i where it is one of this kernel. */
static const hr_call *call_of(const hr_launch *launches, size_t count, size_t i, const hr_cuda_launcher *launcher) {
  bool there = i < count && launches[i].kind == HR_LAUNCH_KERNEL && launches[i].kernel == &launcher->kernel;
  return there ? &launches[i].call : nullptr;
}

/* Whether two tensors are the same elements in the same places, or share no byte. */
static bool same_or_apart(const hr_tensor &a, const hr_tensor &b) {
  span x = span_of(a), y = span_of(b);
  return !overlap(x, y) || (x.from == y.from && x.end == y.end && a.desc.dtype == b.desc.dtype &&
                            desc_columns(a.desc) == desc_columns(b.desc));
}

/* Whether calls may go together where each element is read and written by one thread, which reads all it needs of
 * that place before it writes there: no result lies across what any of the calls reads or another one writes. */
static bool calls_join(const hr_call *const *calls, int count) {
  for (int writer = 0; writer < count; writer++)
    for (int j = 0; j < calls[writer]->n_out; j++) {
      const hr_tensor &to = calls[writer]->out[j];
      for (int other = 0; other < count; other++) {
        for (int i = 0; i < calls[other]->n_in; i++)
          if (!same_or_apart(to, calls[other]->in[i])) return false;
        for (int i = 0; i < calls[other]->n_out; i++)
          if ((other != writer || i != j) && !same_or_apart(to, calls[other]->out[i])) return false;
      }
    }
  return true;
}

#endif

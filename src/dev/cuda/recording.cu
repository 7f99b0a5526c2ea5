/* Recordings: launches captured into a CUDA graph, or two, with copies and kernels on the host beside the kernels.
 *
 * Four streams, each in program order: kernels on the main one, copies to the device, copies from it, host kernels.
 * Between them, inside a recording:
 *
 *   a copy begins behind all kernels and all host kernels that stand before it,
 *   a host kernel begins behind all kernels, and all waits, that stand before it,
 *   a wait puts the main stream behind its copy,
 *   the end puts the main stream behind everything.
 *
 * Why that is enough. A copy touches memory between its start and its wait, both of which name source, destination and
 * room, so that the plan gives none of it to anyone else in between. Memory of the device is touched by kernels and
 * copies: a copy follows all kernels that stand before its start, kernels behind its wait follow it, and of two copies
 * that touch the same bytes the first one's wait stands before the second one's start, so the main stream lies between
 * them. Memory of the host tier is touched by host kernels and copies: a host kernel follows the waits before it, and a
 * copy the host kernels before it. A copy whose wait stands in a later recording is done when that one begins: its wait
 * is nothing there.
 *
 * Launched one by one, everything goes in order on the main stream. */
#include "dev/cuda/device.cuh"

enum { MAIN, COPY_IN, COPY_OUT, HOST, STREAMS };

/* Of a recording that begins with as many kernels, these are a graph of their own: the device works on them while the
 * processor launches the rest, which takes it most of a microsecond for each kernel. */
enum { HEAD = 24, GRAPHS = 2 };

struct hr_recording {
  cudaGraphExec_t graphs[GRAPHS]; /* one after another; NULL: there is none */
  size_t count;                   /* launches inside */
};

/* A copy that has begun in this recording. */
struct begun {
  cudaEvent_t done;
  size_t place;
};

struct capture {
  hr_cuda_state *state;
  const hr_launch *launches;
  size_t count;
  begun *copies; /* per launch; done == NULL: it is no copy that has begun */
  cudaStream_t stream[STREAMS];
  size_t place[STREAMS];         /* how far each stream is; 0: it has no part in the capture yet */
  size_t seen[STREAMS][STREAMS]; /* [a][b]: what place of b the stream a is behind */
};

/* Puts stream a behind all of stream b so far. */
static cudaError_t order(capture *c, int a, int b) {
  if (c->seen[a][b] >= c->place[b]) return cudaSuccess;
  cudaError_t error = cudaEventRecord(c->state->fork, c->stream[b]);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(c->stream[a], c->state->fork, 0);
  c->seen[a][b] = c->place[b];
  c->place[a]++;
  return error;
}

static cudaError_t copy_enqueue(const hr_moving *copy, cudaStream_t stream) {
  if (copy->bytes == 0) return cudaSuccess;
  return cudaMemcpyAsync(copy->to, copy->from, copy->bytes,
                         copy->to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
}

static cudaError_t copy_capture(capture *c, size_t i) {
  const hr_moving *copy = &c->launches[i].copy;
  int own = copy->to_device ? COPY_IN : COPY_OUT;
  cudaError_t error = order(c, own, MAIN);
  if (error == cudaSuccess) error = order(c, own, HOST);
  if (error == cudaSuccess) error = copy_enqueue(copy, c->stream[own]);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&c->copies[i].done, cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventRecord(c->copies[i].done, c->stream[own]);
  c->copies[i].place = ++c->place[own];
  return error;
}

static cudaError_t wait_capture(capture *c, const hr_launch *copy) {
  if (copy < c->launches || copy >= c->launches + c->count) return cudaSuccess; /* done with its own recording */
  const begun *b = &c->copies[copy - c->launches];
  int own = copy->copy.to_device ? COPY_IN : COPY_OUT;
  if (c->seen[MAIN][own] >= b->place) return cudaSuccess;
  c->seen[MAIN][own] = b->place;
  c->place[MAIN]++;
  return cudaStreamWaitEvent(c->stream[MAIN], b->done, 0);
}

/* Runs on a thread of the driver's. */
static void CUDART_CB host_run(void *arg) {
  const hr_launch *launch = (const hr_launch *)arg;
  hr_device *device = launch->call.device;
  if (launch->kernel->run(&launch->call) != HR_OK && !device->failed) device->failed = launch;
}

static cudaError_t host_capture(capture *c, const hr_launch *launch) {
  cudaError_t error = order(c, HOST, MAIN);
  if (error == cudaSuccess) error = cudaLaunchHostFunc(c->stream[HOST], host_run, (void *)launch);
  c->place[HOST]++;
  return error;
}

static const hr_cuda_launcher *launcher_of(const hr_kernel *kernel) {
  return (const hr_cuda_launcher *)kernel; /* its first member, and kernels of the device come from no other place */
}

/* Runs launch *i and those of its neighbours that go together with it; *i moves on to the last of them. */
static cudaError_t kernels_capture(capture *c, size_t *i) {
  const hr_launch *first = &c->launches[*i];
  const hr_cuda_launcher *launcher = launcher_of(first->kernel);
  size_t many = 1, taken = 0;
  if (launcher->take && launcher->take(c->launches, *i, c->count, &taken) != HR_OK) return cudaErrorLaunchFailure;
  if (taken > 0) {
    c->place[MAIN]++;
    *i += taken - 1;
    return cudaSuccess;
  }
  while (launcher->run_many && *i + many < c->count && first[many].kind == HR_LAUNCH_KERNEL &&
         first[many].kernel == first->kernel)
    many++;
  hr_status status = many > 1 ? launcher->run_many(first, many) : first->kernel->run(&first->call);
  c->place[MAIN]++;
  if (status != HR_OK) return cudaErrorLaunchFailure;
  *i += many - 1;
  return cudaSuccess;
}

static cudaError_t launch_capture(capture *c, size_t *i) {
  const hr_launch *launch = &c->launches[*i];
  switch (launch->kind) {
  case HR_LAUNCH_COPY:
    return copy_capture(c, *i);
  case HR_LAUNCH_WAIT:
    return wait_capture(c, launch->begun);
  case HR_LAUNCH_HOST:
    return host_capture(c, launch);
  default:
    return kernels_capture(c, i);
  }
}

/* Captures launches from *next on until `end` is reached; *next moves on behind them. On failure *failed is the launch
 * that was refused. */
static cudaError_t launches_capture(capture *c, size_t *next, size_t end, cudaGraph_t *graph, size_t *failed) {
  memset(c->place, 0, sizeof c->place);
  memset(c->seen, 0, sizeof c->seen);
  cudaError_t error = cudaStreamBeginCapture(c->stream[MAIN], cudaStreamCaptureModeRelaxed), ended;
  if (error != cudaSuccess) return error;
  c->place[MAIN] = 1;
  size_t i = *next;
  for (; i < end; i++)
    if ((error = launch_capture(c, &i)) != cudaSuccess) break;
  *failed = *next = i;
  for (int side = MAIN + 1; side < STREAMS; side++) { /* also after a failure: an open fork cannot be ended */
    cudaError_t joined = order(c, MAIN, side);
    if (error == cudaSuccess) error = joined;
  }
  ended = cudaStreamEndCapture(c->stream[MAIN], graph);
  if (error == cudaSuccess) error = ended;
  if (error != cudaSuccess && ended == cudaSuccess) cudaGraphDestroy(*graph);
  return error;
}

/* A graph, ready to be launched: what it needs on the device is taken now, not at the first replay. */
static cudaError_t graph_make(capture *c, size_t *next, size_t end, cudaGraphExec_t *out, size_t *failed) {
  cudaGraph_t graph;
  cudaError_t error = launches_capture(c, next, end, &graph, failed);
  if (error != cudaSuccess) return error;
  error = cudaGraphInstantiate(out, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) return error;
  error = cudaGraphUpload(*out, c->stream[MAIN]);
  if (error == cudaSuccess) error = cudaStreamSynchronize(c->stream[MAIN]);
  return error;
}

static void graphs_destroy(cudaGraphExec_t graphs[GRAPHS]) {
  for (int g = 0; g < GRAPHS; g++)
    if (graphs[g]) cudaGraphExecDestroy(graphs[g]);
}

/* Where the first graph ends: copies would have to be waited for in the one that they began in. */
static size_t head_end(const capture *c) {
  if (c->count < 2 * HEAD) return c->count;
  for (size_t i = 0; i < HEAD; i++) {
    bool waits = c->launches[i].kind == HR_LAUNCH_WAIT &&
                 (c->launches[i].begun < c->launches || c->launches[i].begun >= c->launches + c->count);
    if (c->launches[i].kind != HR_LAUNCH_KERNEL && !waits) return c->count;
  }
  return HEAD;
}

static cudaError_t graphs_make(capture *c, cudaGraphExec_t graphs[GRAPHS], size_t *failed) {
  size_t next = 0;
  cudaError_t error = graph_make(c, &next, head_end(c), &graphs[0], failed);
  if (error == cudaSuccess && next < c->count) error = graph_make(c, &next, c->count, &graphs[1], failed);
  if (error != cudaSuccess) graphs_destroy(graphs);
  return error;
}

static size_t free_bytes(void) {
  size_t left = 0, all;
  return cudaMemGetInfo(&left, &all) == cudaSuccess ? left : 0;
}

hr_status hr__cuda_record(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                          size_t *failed, hr_error *err) {
  hr_cuda_state *state = state_of(device);
  capture c = {};
  c.state = state;
  c.launches = launches;
  c.count = count;
  c.stream[MAIN] = state->stream;
  c.stream[COPY_IN] = state->copy_in;
  c.stream[COPY_OUT] = state->copy_out;
  c.stream[HOST] = state->on_host;
  c.copies = (begun *)state->host.alloc((count + 1) * sizeof *c.copies);
  hr_recording *recording = (hr_recording *)state->host.alloc(sizeof *recording);
  *failed = count;
  if (!recording || !c.copies) {
    state->host.free(recording);
    state->host.free(c.copies);
    return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  }
  for (size_t i = 0; i < count; i++)
    c.copies[i] = begun{nullptr, 0};
  *recording = hr_recording{{}, count};

  size_t before = free_bytes();
  cudaError_t error = graphs_make(&c, recording->graphs, failed);
  size_t after = free_bytes();
  for (size_t i = 0; i < count; i++)
    if (c.copies[i].done) cudaEventDestroy(c.copies[i].done);
  state->host.free(c.copies);
  if (error != cudaSuccess) {
    state->host.free(recording);
    return hr__cuda_fail(state, err, "cannot record a program", error);
  }
  state->counts.graphs++;
  state->counts.recorded += count;
  state->counts.graph_bytes += before > after ? before - after : 0;
  *out = recording;
  return HR_OK;
}

/* A graph fails as a whole: which launch it was is not known. */
hr_status hr__cuda_replay(hr_device *device, hr_recording *recording, size_t *failed) {
  hr_cuda_state *state = state_of(device);
  *failed = recording->count;
  state->counts.graph_launches++;
  for (int g = 0; g < GRAPHS; g++)
    if (recording->graphs[g] && cudaGraphLaunch(recording->graphs[g], state->stream) != cudaSuccess) return HR_FAILURE;
  return HR_OK;
}

void hr__cuda_recording_destroy(hr_device *device, hr_recording *recording) {
  cudaStreamSynchronize(state_of(device)->stream);
  graphs_destroy(recording->graphs);
  state_of(device)->host.free(recording);
}

hr_status hr__cuda_launch(hr_device *device, const hr_launch *launch) {
  hr_cuda_state *state = state_of(device);
  state->counts.launches++;
  if (launch->kind == HR_LAUNCH_WAIT) return HR_OK;
  if (launch->kind == HR_LAUNCH_COPY)
    return copy_enqueue(&launch->copy, state->stream) == cudaSuccess ? HR_OK : HR_FAILURE;
  if (launch->kind == HR_LAUNCH_HOST && cudaStreamSynchronize(state->stream) != cudaSuccess) return HR_FAILURE;
  return launch->kernel->run(&launch->call);
}

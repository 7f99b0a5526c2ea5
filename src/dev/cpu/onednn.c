/* Matrix products by oneDNN (only onednn*.c call it); written for its C interface of version 2 (Debian 12) and of
 * version 3.
 *
 * oneDNN would start its own OpenMP threads. Ours do the parallel work, so every thread that creates or runs a product
 * first tells OpenMP to use one thread; that setting is per thread. One engine and the compiled code serve the process;
 * streams and memory objects are not thread-safe and belong to one product of one user and one worker.
 */
#include "dev/cpu/onednn.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { WORKERS = 1024 }; /* largest worker count */

static dnnl_engine_t engine; /* guarded by the lock below, like all objects of the library */

/* matmul_describe: the library has several ways to compute a product; `number` counts them from its first choice on. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout_ref;

static dnnl_status_t layout_create(dnnl_memory_desc_t *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                                   const dnnl_dims_t strides) {
  return dnnl_memory_desc_create_with_strides(layout, 2, dims, type, strides);
}
static void layout_destroy(dnnl_memory_desc_t *layout) {
  if (*layout) dnnl_memory_desc_destroy(*layout);
}
static layout_ref layout_get(const dnnl_memory_desc_t *layout) {
  return *layout;
}
static dnnl_status_t sum_append(dnnl_post_ops_t post_ops) {
  return dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, layout_ref a, layout_ref b, layout_ref c,
                                     dnnl_primitive_attr_t attr, int number) {
  dnnl_status_t status = dnnl_matmul_primitive_desc_create(out, engine, a, b, NULL, c, attr);
  for (int i = 0; i < number && status == dnnl_success; i++)
    status = dnnl_primitive_desc_next_impl(*out);
  return status;
}
#else
typedef const dnnl_memory_desc_t *layout_ref;

static dnnl_status_t layout_create(dnnl_memory_desc_t *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                                   const dnnl_dims_t strides) {
  return dnnl_memory_desc_init_by_strides(layout, 2, dims, type, strides);
}
static void layout_destroy(dnnl_memory_desc_t *layout) {
  (void)layout;
}
static layout_ref layout_get(const dnnl_memory_desc_t *layout) {
  return layout;
}
static dnnl_status_t sum_append(dnnl_post_ops_t post_ops) {
  return dnnl_post_ops_append_sum(post_ops, 1.0f);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, layout_ref a, layout_ref b, layout_ref c,
                                     dnnl_primitive_attr_t attr, int number) {
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_desc_iterator_t ways = NULL;
  dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, b, NULL, c);
  if (status == dnnl_success) status = dnnl_primitive_desc_iterator_create(&ways, &matmul, attr, engine, NULL);
  for (int i = 0; i < number && status == dnnl_success; i++)
    status = dnnl_primitive_desc_iterator_next(ways);
  if (status == dnnl_success && !(*out = dnnl_primitive_desc_iterator_fetch(ways))) status = dnnl_out_of_memory;
  if (ways) dnnl_primitive_desc_iterator_destroy(ways);
  return status;
}
#endif

enum { SLOT_A, SLOT_B, SLOT_C, SLOT_SCRATCH, SLOTS };

/* Machine code for one shape, shared by all products of that shape. */
typedef struct compiled {
  hr_gemm_spec spec;
  size_t scratch_most;
  int references;
  struct compiled *next;
  dnnl_primitive_t primitive;
} compiled;

/* What one worker needs to run a product. */
typedef struct desk {
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[SLOTS]; /* memory objects whose address is set before each run */
} desk;

struct hr_dnn_product {
  hr_gemm_spec spec;
  size_t scratch_most;
  const void *user; /* NULL: shared with none */
  int references;
  struct hr_dnn_product *next;
  compiled *code;
  size_t scratch_bytes;
  int workers;
  desk desks[]; /* per worker */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static compiled *codes;
static hr_dnn_product *products;

static void (*openmp_threads)(int); /* omp_set_num_threads; NULL where oneDNN runs without OpenMP */

static hr_status fail(hr_error *err, const char *what, dnnl_status_t status) {
  if (status == dnnl_out_of_memory) return hr__nomem(err);
  return hr__fail(err, HR_FAILURE, NULL, NULL, "oneDNN could not %s (status %d)", what, (int)status);
}

static bool tiles_there;
static pthread_once_t processor_asked = PTHREAD_ONCE_INIT;

/* The library sets tiles up by what the processor says of them (CPUID leaf 0x1d). Virtual machines may show the
 * instructions and hide that leaf: the library would run them with nothing set up, which ends the process. Asked once:
 * in a virtual machine CPUID takes tens of microseconds, and every product of every sketch of a plan wants to know. */
static void processor_ask(void) {
#ifdef __x86_64__
  unsigned a, b, c, d, palettes = 0;
  bool shown = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);
  tiles_there = shown && __get_cpuid_count(0x1d, 0, &palettes, &b, &c, &d) && palettes > 0;
  if (shown && !tiles_there && !getenv("DNNL_MAX_CPU_ISA")) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
#endif
}

bool hr__dnn_tiles(void) {
  pthread_once(&processor_asked, processor_ask);
  return tiles_there;
}

/* What the library may use at most; after asking once it cannot be changed. */
static dnnl_cpu_isa_t library_instructions(void) {
  pthread_once(&processor_asked, processor_ask);
  return dnnl_get_effective_cpu_isa();
}

/* The engine; the lock is held. */
static hr_status library_open(hr_error *err) {
  if (engine) return HR_OK;
  library_instructions();
  *(void **)&openmp_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (openmp_threads) openmp_threads(1);
  dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
  return status == dnnl_success ? HR_OK : fail(err, "create its engine", status);
}

bool hr__dnn_native(hr_dtype dtype) {
  if (dtype == HR_F32) return true;
  if (dtype != HR_BF16) return false;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && library_instructions() >= dnnl_cpu_isa_avx512_core_bf16;
}

int hr__dnn_vector_bytes(void) {
  __builtin_cpu_init();
  dnnl_cpu_isa_t most = library_instructions();
  if (__builtin_cpu_supports("avx512bw") && most >= dnnl_cpu_isa_avx512_core) return 64;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && most >= dnnl_cpu_isa_avx2 ? 32 : 16;
}

static dnnl_data_type_t type_of(hr_dtype dtype) {
  return dtype == HR_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* What must be undone on any path out of product_create. */
typedef struct description {
  dnnl_memory_desc_t layout[SLOT_SCRATCH];
  int n_layouts;
  dnnl_post_ops_t post_ops;
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t primitive;
} description;

static void description_fini(description *d) {
  for (int i = 0; i < d->n_layouts; i++)
    layout_destroy(&d->layout[i]);
  if (d->primitive) dnnl_primitive_desc_destroy(d->primitive);
  if (d->attr) dnnl_primitive_attr_destroy(d->attr);
  if (d->post_ops) dnnl_post_ops_destroy(d->post_ops);
}

static dnnl_status_t description_layout(description *d, int64_t rows, int64_t columns, int64_t ld, bool transposed,
                                        hr_dtype dtype) {
  dnnl_dims_t dims = {rows, columns};
  dnnl_dims_t strides = {transposed ? 1 : ld, transposed ? ld : 1};
  dnnl_status_t status = layout_create(&d->layout[d->n_layouts], dims, type_of(dtype), strides);
  if (status == dnnl_success) d->n_layouts++;
  return status;
}

static size_t description_scratch(const description *d) {
  return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(d->primitive, dnnl_query_scratchpad_md, 0));
}

/* The plain loops of the library are only for f32, where there is nothing else to turn to. */
static bool description_allowed(const description *d, const hr_gemm_spec *s, size_t scratch_most) {
  const char *way = "";
  dnnl_primitive_desc_query(d->primitive, dnnl_query_impl_info_str, 0, &way);
  return description_scratch(d) <= scratch_most && (s->a == HR_F32 || strncmp(way, "ref", 3) != 0);
}

/* The library's first choice whose scratch is small enough; dnnl_unimplemented: there is none. */
static dnnl_status_t description_choose(description *d, const hr_gemm_spec *s, size_t scratch_most) {
  for (int number = 0;; number++) {
    dnnl_status_t status =
        matmul_describe(&d->primitive, layout_get(&d->layout[SLOT_A]), layout_get(&d->layout[SLOT_B]),
                        layout_get(&d->layout[SLOT_C]), d->attr, number);
    if (status != dnnl_success) return number > 0 && status != dnnl_out_of_memory ? dnnl_unimplemented : status;
    if (description_allowed(d, s, scratch_most)) return dnnl_success;
    dnnl_primitive_desc_destroy(d->primitive);
    d->primitive = NULL;
  }
}

static dnnl_status_t description_init(description *d, const hr_gemm_spec *s, size_t scratch_most) {
  dnnl_status_t status = description_layout(d, s->m, s->k, s->lda, s->transpose_a, s->a);
  if (status == dnnl_success) status = description_layout(d, s->k, s->n, s->ldb, s->transpose_b, s->b);
  if (status == dnnl_success) status = description_layout(d, s->m, s->n, s->ldc, false, s->c);
  if (status == dnnl_success) status = dnnl_primitive_attr_create(&d->attr);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success && s->accumulate) {
    status = dnnl_post_ops_create(&d->post_ops);
    if (status == dnnl_success) status = sum_append(d->post_ops);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(d->attr, d->post_ops);
  }
  return status == dnnl_success ? description_choose(d, s, scratch_most) : status;
}

/* The code for a description, from the cache or compiled now; the lock is held. */
static hr_status code_get(const hr_gemm_spec *spec, size_t scratch_most, const description *d, compiled **out,
                          hr_error *err) {
  compiled *code = codes;
  while (code && (code->scratch_most != scratch_most || !hr__gemm_spec_equal(&code->spec, spec)))
    code = code->next;
  if (!code) {
    code = hr__alloc_zero(1, sizeof *code);
    if (!code) return hr__nomem(err);
    dnnl_status_t status = dnnl_primitive_create(&code->primitive, d->primitive);
    if (status != dnnl_success) {
      hr__free(code);
      return fail(err, "compile a matrix product", status);
    }
    code->spec = *spec;
    code->scratch_most = scratch_most;
    code->next = codes;
    codes = code;
  }
  code->references++;
  *out = code;
  return HR_OK;
}

static void code_release(compiled *code) {
  if (--code->references > 0) return;
  compiled **link = &codes;
  while (*link != code)
    link = &(*link)->next;
  *link = code->next;
  dnnl_primitive_destroy(code->primitive);
  hr__free(code);
}

static dnnl_status_t desk_create(desk *w, const description *d, layout_ref scratch) {
  static const int names[SLOTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  dnnl_status_t status = dnnl_stream_create(&w->stream, engine, dnnl_stream_default_flags);
  for (int slot = 0; status == dnnl_success && slot < SLOTS; slot++) {
    layout_ref layout = slot == SLOT_SCRATCH ? scratch : layout_get(&d->layout[slot]);
    w->args[slot].arg = names[slot];
    status = dnnl_memory_create(&w->args[slot].memory, layout, engine, DNNL_MEMORY_NONE);
  }
  return status;
}

/* The lock is held. */
static void product_destroy(hr_dnn_product *product) {
  if (--product->references > 0) return;
  for (hr_dnn_product **link = &products; *link; link = &(*link)->next) {
    if (*link != product) continue;
    *link = product->next;
    break;
  }
  for (int worker = 0; worker < product->workers; worker++) {
    desk *w = &product->desks[worker];
    for (int slot = 0; slot < SLOTS; slot++)
      if (w->args[slot].memory) dnnl_memory_destroy(w->args[slot].memory);
    if (w->stream) dnnl_stream_destroy(w->stream);
  }
  if (product->code) code_release(product->code);
  hr__free(product);
}

static hr_status product_fill(hr_dnn_product *product, const hr_gemm_spec *spec, description *d, hr_error *err) {
  dnnl_status_t status = description_init(d, spec, product->scratch_most);
  if (status == dnnl_unimplemented)
    return hr__fail(err, HR_UNSUPPORTED, NULL, NULL,
                    "oneDNN has no product of %lld x %lld x %lld in %s with at most %zu bytes of scratch",
                    (long long)spec->m, (long long)spec->n, (long long)spec->k, hr_dtype_name(spec->a),
                    product->scratch_most);
  if (status != dnnl_success) return fail(err, "describe a matrix product", status);
  HR_TRY(code_get(spec, product->scratch_most, d, &product->code, err));
  layout_ref scratch = dnnl_primitive_desc_query_md(d->primitive, dnnl_query_scratchpad_md, 0);
  product->scratch_bytes = description_scratch(d);
  for (int worker = 0; worker < product->workers; worker++) {
    status = desk_create(&product->desks[worker], d, scratch);
    if (status != dnnl_success) return fail(err, "prepare a matrix product", status);
  }
  return HR_OK;
}

/* The same product of the same user; the lock is held. */
static hr_dnn_product *product_find(const hr_gemm_spec *spec, size_t scratch_most, int workers, const void *user) {
  hr_dnn_product *product = user ? products : NULL;
  while (product && (product->user != user || product->workers != workers || product->scratch_most != scratch_most ||
                     !hr__gemm_spec_equal(&product->spec, spec)))
    product = product->next;
  return product;
}

static hr_status product_create(const hr_gemm_spec *spec, size_t scratch_most, int workers, const void *user,
                                hr_dnn_product **out, hr_error *err) {
  *out = product_find(spec, scratch_most, workers, user);
  if (*out) {
    (*out)->references++;
    return HR_OK;
  }
  HR_TRY(library_open(err));
  if (openmp_threads) openmp_threads(1);
  hr_dnn_product *product = hr__alloc(sizeof *product + (size_t)workers * sizeof(desk));
  if (!product) return hr__nomem(err);
  memset(product, 0, sizeof *product + (size_t)workers * sizeof(desk));
  product->spec = *spec;
  product->scratch_most = scratch_most;
  product->workers = workers;
  product->user = user;
  product->references = 1;
  description d = {0};
  hr_status status = product_fill(product, spec, &d, err);
  description_fini(&d);
  if (status != HR_OK) {
    product_destroy(product);
    return status;
  }
  product->next = products;
  *out = products = product;
  return HR_OK;
}

hr_status hr__dnn_create(const hr_gemm_spec *spec, size_t scratch_most, int workers, const void *user,
                         hr_dnn_product **out, hr_error *err) {
  if (workers < 1 || workers > WORKERS)
    return hr__fail(err, HR_UNSUPPORTED, NULL, NULL, "%d threads (1 to %d are supported)", workers, WORKERS);
  pthread_mutex_lock(&lock);
  hr_status status = product_create(spec, scratch_most, workers, user, out, err);
  pthread_mutex_unlock(&lock);
  return status;
}

void hr__dnn_destroy(hr_dnn_product *product) {
  if (!product) return;
  pthread_mutex_lock(&lock);
  product_destroy(product);
  pthread_mutex_unlock(&lock);
}

void hr__dnn_forget(void) {
  int capacity;
  pthread_mutex_lock(&lock);
  if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success &&
      dnnl_set_primitive_cache_capacity(0) == dnnl_success)
    dnnl_set_primitive_cache_capacity(capacity);
  pthread_mutex_unlock(&lock);
}

size_t hr__dnn_compiled(void) {
  size_t count = 0;
  pthread_mutex_lock(&lock);
  for (const compiled *code = codes; code; code = code->next)
    count++;
  pthread_mutex_unlock(&lock);
  return count;
}

size_t hr__dnn_scratch_bytes(const hr_dnn_product *product) {
  return product->scratch_bytes;
}

/* The library's interface has no const. */
static dnnl_status_t address_set(dnnl_memory_t memory, const void *address) {
  union {
    const void *in;
    void *out;
  } cast = {address};
  return dnnl_memory_set_data_handle(memory, cast.out);
}

hr_status hr__dnn_run(const hr_dnn_product *product, int worker, const void *a, const void *b, void *c, void *scratch) {
  const desk *w = &product->desks[worker];
  const dnnl_exec_arg_t *args = w->args;
  if (openmp_threads) openmp_threads(1);
  dnnl_status_t status = address_set(args[SLOT_A].memory, a);
  if (status == dnnl_success) status = address_set(args[SLOT_B].memory, b);
  if (status == dnnl_success) status = address_set(args[SLOT_C].memory, c);
  if (status == dnnl_success) status = address_set(args[SLOT_SCRATCH].memory, scratch);
  if (status == dnnl_success) status = dnnl_primitive_execute(product->code->primitive, w->stream, SLOTS, args);
  return status == dnnl_success ? HR_OK : HR_FAILURE;
}

/* The builder: checks, shapes and storage for every value and node that enters a graph. */
#include "graph/builder.h"

#include <stdarg.h>
#include <string.h>

#include "base/checked.h"

void hr__builder_init(hr_builder *b, hr_graph *graph, hr_dtype dtype) {
  *b = (hr_builder){.graph = graph, .program = HR_NONE, .block = HR_NONE, .module = "", .prefix = "", .dtype = dtype};
}

hr_status hr__builder_status(const hr_builder *b, hr_error *err) {
  if (b->status != HR_OK && err) *err = b->error;
  return b->status;
}

static hr_id builder_nomem(hr_builder *b) {
  b->status = hr__nomem(&b->error);
  return HR_NONE;
}

/* Makes room for one more object of one of the graph's tables; false after an error. */
#define TABLE_GROW(b, items, cap, n)                                                                                   \
  (hr__arena_grow(&(b)->graph->arena, (void **)&(b)->graph->items, &(b)->graph->cap, (b)->graph->n,                    \
                  sizeof *(b)->graph->items) == 0)

/* With the prefix of the part that is being built. */
static const char *builder_text(hr_builder *b, const char *format, va_list list) {
  char text[512];
  size_t used = (size_t)snprintf(text, sizeof text, "%s", b->prefix);
  if (used < sizeof text) vsnprintf(text + used, sizeof text - used, format, list);
  const char *copy = hr__arena_text(&b->graph->arena, text);
  if (!copy) builder_nomem(b);
  return copy ? copy : "";
}

hr_id hr__program_begin(hr_builder *b, hr_program_kind kind) {
  return hr__program_begin_keyed(b, (hr_program_key){.kind = kind}, hr_program_kind_name(kind));
}

hr_id hr__program_begin_keyed(hr_builder *b, hr_program_key key, const char *name) {
  if (b->status != HR_OK) return HR_NONE;
  hr_graph *g = b->graph;
  if (g->n_programs == HR_PROGRAMS) {
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "a graph has at most %d programs", HR_PROGRAMS);
    return HR_NONE;
  }
  if (!TABLE_GROW(b, programs, cap_programs, n_programs)) return builder_nomem(b);
  b->program = (hr_id)g->n_programs;
  b->phase = HR_FORWARD;
  b->block = HR_NONE;
  g->programs[g->n_programs++] = (hr_program){.key = key, .name = name, .first = (hr_id)g->n_nodes};
  return b->program;
}

void hr__program_set_input(hr_builder *b, const char *name, hr_id value) {
  if (b->status != HR_OK) return;
  hr_program *p = &b->graph->programs[b->program];
  if (p->n_inputs == HR_INPUTS) {
    b->status = hr__fail(&b->error, HR_FAILURE, p->name, NULL, "a program has at most %d inputs", HR_INPUTS);
    return;
  }
  p->input[p->n_inputs].name = name;
  p->input[p->n_inputs++].value = value;
}

void hr__program_set_output(hr_builder *b, const char *name, hr_id value) {
  if (b->status != HR_OK) return;
  if (b->program == HR_NONE || value >= b->graph->n_values) {
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "an output needs a program and a value");
    return;
  }
  hr_program *p = &b->graph->programs[b->program];
  if (p->n_outputs == HR_PROGRAM_OUTPUTS) {
    b->status = hr__fail(&b->error, HR_FAILURE, p->name, NULL, "a program has at most %d outputs", HR_PROGRAM_OUTPUTS);
    return;
  }
  p->output[p->n_outputs].name = name;
  p->output[p->n_outputs].factor = HR_NONE;
  p->output[p->n_outputs++].value = value;
  b->graph->buffers[b->graph->values[value].buffer].role = HR_ROLE_OUTPUT;
}

void hr__program_set_reported(hr_builder *b, const char *name, hr_id value, hr_output_kind kind, float weight,
                              hr_id factor) {
  hr__program_set_output(b, name, value);
  if (b->status != HR_OK) return;
  hr_program *p = &b->graph->programs[b->program];
  p->output[p->n_outputs - 1].kind = kind;
  p->output[p->n_outputs - 1].weight = weight;
  p->output[p->n_outputs - 1].factor = factor;
}

void hr__module(hr_builder *b, const char *format, ...) {
  if (b->status != HR_OK) return;
  va_list list;
  va_start(list, format);
  b->module = builder_text(b, format, list);
  va_end(list);
}

const char *hr__module_here(const hr_builder *b) {
  size_t length = strlen(b->prefix);
  return strncmp(b->module, b->prefix, length) == 0 ? b->module + length : b->module;
}

static void block_open(hr_builder *b, const char *name, bool component) {
  hr_graph *g = b->graph;
  if (b->status != HR_OK) return;
  if (!TABLE_GROW(b, blocks, cap_blocks, n_blocks)) {
    builder_nomem(b);
    return;
  }
  g->blocks[g->n_blocks] =
      (hr_block){.name = name, .parent = b->block, .program = b->program, .component = component, .origin = HR_NONE};
  b->block = (hr_id)g->n_blocks++;
}

void hr__block_begin(hr_builder *b, const char *format, ...) {
  if (b->status != HR_OK) return;
  va_list list;
  va_start(list, format);
  block_open(b, builder_text(b, format, list), false);
  va_end(list);
}

void hr__component_begin(hr_builder *b, const char *format, ...) {
  if (b->status != HR_OK) return;
  va_list list;
  va_start(list, format);
  block_open(b, builder_text(b, format, list), true);
  va_end(list);
}

void hr__block_end(hr_builder *b) {
  if (b->status == HR_OK) b->block = b->graph->blocks[b->block].parent;
}

/* Bytes of a dense array, or false when a dimension is negative or the product overflows. */
static bool desc_bytes_checked(const hr_desc *desc, size_t *bytes) {
  size_t total = hr_dtype_bytes(desc->dtype);
  for (int i = 0; i < desc->rank; i++) {
    if (desc->dim[i] < 0 || !hr__mul_size(total, (size_t)desc->dim[i], &total)) return false;
  }
  *bytes = total;
  return total <= (size_t)1 << 62;
}

static void strides_dense(const hr_desc *desc, int64_t *stride) {
  int64_t step = 1;
  for (int i = desc->rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= desc->dim[i];
  }
}

/* A dense value over a whole buffer: over `buffer`, or over a new one, owned by `module`, when it is HR_NONE. */
static hr_id value_create(hr_builder *b, const char *name, const char *module, hr_desc desc, hr_role role,
                          bool persistent, hr_id buffer) {
  hr_graph *g = b->graph;
  if (!TABLE_GROW(b, values, cap_values, n_values)) return builder_nomem(b);
  if (buffer == HR_NONE) {
    size_t bytes;
    if (!desc_bytes_checked(&desc, &bytes)) {
      b->status = hr__fail(&b->error, HR_BAD_INPUT, name, "use smaller sizes", "the size of this tensor overflows");
      return HR_NONE;
    }
    if (!TABLE_GROW(b, buffers, cap_buffers, n_buffers)) return builder_nomem(b);
    buffer = (hr_id)g->n_buffers++;
    g->buffers[buffer] = (hr_buffer){.name = name,
                                     .module = module,
                                     .bytes = bytes,
                                     .role = role,
                                     .home = HR_TIER_DEVICE,
                                     .persistent = persistent,
                                     .program = persistent ? HR_NONE : b->program};
  }
  hr_id id = (hr_id)g->n_values++;
  hr_value *v = &g->values[id];
  *v = (hr_value){
      .name = name, .desc = desc, .buffer = buffer, .producer = HR_NONE, .gradient = HR_NONE, .base = HR_NONE};
  strides_dense(&desc, v->stride);
  return id;
}

/* One that is looked for by its name: those that nodes make, thousands of them with the same, never are. */
static hr_id value_create_named(hr_builder *b, const char *name, const char *module, hr_desc desc, hr_role role,
                                bool persistent, hr_id buffer) {
  hr_id id = value_create(b, name, module, desc, role, persistent, buffer);
  return id == HR_NONE || hr__graph_name_value(b->graph, id) ? id : builder_nomem(b);
}

/* The module around a tensor of the model, "a.b" of "a.b.weight"; anything else is its own. NULL: out of memory. */
static const char *module_around(hr_arena *arena, const char *name, hr_role role) {
  bool inside = role == HR_ROLE_PARAMETER || role == HR_ROLE_STATE || role == HR_ROLE_CACHE;
  const char *dot = inside ? strrchr(name, '.') : NULL;
  return dot ? hr__arena_format(arena, "%.*s", (int)(dot - name), name) : name;
}

hr_id hr__persistent(hr_builder *b, const char *name, hr_role role, hr_desc desc, hr_init init) {
  if (b->status != HR_OK) return HR_NONE;
  hr_id found = hr__graph_find_value(b->graph, name);
  if (found != HR_NONE) {
    const hr_desc *has = &b->graph->values[found].desc;
    const hr_buffer *buffer = &b->graph->buffers[b->graph->values[found].buffer];
    if (buffer->persistent && buffer->role == role && has->dtype == desc.dtype && hr_desc_same_shape(has, &desc))
      return found;
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "declared twice with different shapes, types or roles");
    return HR_NONE;
  }
  const char *copy = hr__arena_text(&b->graph->arena, name);
  const char *module = copy ? module_around(&b->graph->arena, copy, role) : NULL;
  if (!module) return builder_nomem(b);
  hr_id id = value_create_named(b, copy, module, desc, role, true, HR_NONE);
  if (id != HR_NONE) b->graph->values[id].init = init;
  return id;
}

/* A member of `whole` from row `first` on. */
static void member_create(hr_builder *b, hr_id whole, const hr_member *member, int64_t first) {
  const hr_value from = b->graph->values[whole];
  const char *name = hr__arena_text(&b->graph->arena, member->name);
  if (!name) {
    builder_nomem(b);
    return;
  }
  hr_desc desc = from.desc;
  desc.dim[0] = member->rows;
  hr_id id = value_create_named(b, name, NULL, desc, HR_ROLE_ACTIVATION, true, from.buffer);
  if (id == HR_NONE) return;
  hr_value *v = &b->graph->values[id];
  v->offset = (size_t)(first * from.stride[0]) * hr_dtype_bytes(desc.dtype);
  v->base = whole;
  v->init = member->init;
  b->graph->values[whole].members++;
}

hr_id hr__stacked(hr_builder *b, const char *name, hr_role role, hr_desc desc, const hr_member *members, int count) {
  if (b->status != HR_OK) return HR_NONE;
  if (count == 1) return hr__persistent(b, members[0].name, role, desc, members[0].init);
  int64_t rows = 0;
  for (int i = 0; i < count; i++)
    rows += members[i].rows;
  if (desc.rank < 1 || rows != desc.dim[0]) {
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "the rows of its members are not those of the whole");
    return HR_NONE;
  }
  hr_id id = hr__persistent(b, name, role, desc, (hr_init){.rule = HR_INIT_ZERO});
  if (id == HR_NONE || b->graph->values[id].members > 0) return id;
  int64_t first = 0;
  for (int i = 0; i < count && b->status == HR_OK; i++) {
    member_create(b, id, &members[i], first);
    first += members[i].rows;
  }
  return b->status == HR_OK ? id : HR_NONE;
}

hr_id hr__beside(hr_builder *b, hr_id value, const char *kind, hr_role role, hr_desc desc, hr_init init) {
  if (b->status != HR_OK) return HR_NONE;
  hr_arena *arena = &b->graph->arena;
  hr_id count = b->graph->values[value].members;
  int64_t rows = count ? b->graph->values[value].desc.dim[0] : 1;
  const char *name = hr__arena_format(arena, "%s.%s", kind, b->graph->values[value].name);
  hr_member *members = hr__arena_array(arena, (size_t)count + 1, sizeof *members);
  if (!name || !members) return builder_nomem(b);
  members[0] = (hr_member){name, desc.dim[0], init};
  for (hr_id i = 0; i < count; i++) {
    const hr_value *member = &b->graph->values[value + 1 + i];
    members[i] = (hr_member){hr__arena_format(arena, "%s.%s", kind, member->name), 0, init};
    if (!members[i].name) return builder_nomem(b);
    members[i].rows = member->desc.dim[0] * desc.dim[0] / rows;
  }
  hr_id id = hr__stacked(b, name, role, desc, members, count ? (int)count : 1);
  if (id != HR_NONE) hr__belongs(b->graph, id, value);
  return id;
}

void hr__belongs(hr_graph *graph, hr_id value, hr_id to) {
  graph->buffers[graph->values[value].buffer].module = graph->buffers[graph->values[to].buffer].module;
}

/* The name of a parameter in the part that is being built. NULL: out of memory, which the builder tells. */
static const char *name_in_part(hr_builder *b, const char *name) {
  const char *prefix = b->weights ? b->weights : b->prefix;
  if (!*prefix || b->status != HR_OK) return name;
  const char *whole = hr__arena_format(&b->graph->arena, "%s%s", prefix, name);
  if (!whole) builder_nomem(b);
  return whole;
}

hr_id hr__parameter(hr_builder *b, const char *name, hr_desc desc, hr_init init) {
  desc.dtype = b->dtype;
  hr_id id = hr__persistent(b, name_in_part(b, name), HR_ROLE_PARAMETER, desc, init);
  if (id != HR_NONE) b->graph->values[id].trained = true;
  return id;
}

hr_id hr__state(hr_builder *b, const char *name, hr_desc desc, hr_init init) {
  desc.dtype = HR_F32;
  return hr__persistent(b, name_in_part(b, name), HR_ROLE_STATE, desc, init);
}

hr_id hr__cache(hr_builder *b, const char *name, hr_desc desc) {
  desc.dtype = b->dtype;
  return hr__persistent(b, name_in_part(b, name), HR_ROLE_CACHE, desc, (hr_init){.rule = HR_INIT_ZERO});
}

hr_id hr__cache_f32(hr_builder *b, const char *name, hr_desc desc) {
  desc.dtype = HR_F32;
  hr_id id = hr__persistent(b, name_in_part(b, name), HR_ROLE_CACHE, desc, (hr_init){.rule = HR_INIT_ZERO});
  if (id != HR_NONE) b->graph->values[id].keep_f32 = true;
  return id;
}

hr_id hr__parameter_stacked(hr_builder *b, const char *name, hr_desc desc, const hr_member *members, int count) {
  hr_member named[HR_MEMBERS];
  for (int i = 0; i < count; i++) {
    named[i] = members[i];
    named[i].name = name_in_part(b, members[i].name);
  }
  desc.dtype = b->dtype;
  hr_id id = hr__stacked(b, name_in_part(b, name), HR_ROLE_PARAMETER, desc, named, count);
  for (hr_id i = 0; id != HR_NONE && i <= b->graph->values[id].members; i++)
    b->graph->values[id + i].trained = true;
  return id;
}

hr_id hr__input(hr_builder *b, const char *name, hr_desc desc) {
  return hr__input_batch(b, name, desc, (hr_batch){desc.rank > 0 ? 0 : -1, 1});
}

hr_id hr__input_batch(hr_builder *b, const char *name, hr_desc desc, hr_batch batch) {
  if (b->status != HR_OK) return HR_NONE;
  if (batch.axis >= desc.rank ||
      (batch.axis >= 0 && (batch.rows < 1 || batch.rows > INT32_MAX || desc.dim[batch.axis] % batch.rows != 0))) {
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "its batch does not lie along one of its axes");
    return HR_NONE;
  }
  const char *copy = hr__arena_text(&b->graph->arena, name);
  if (!copy) return builder_nomem(b);
  hr_id id = value_create_named(b, copy, copy, desc, HR_ROLE_INPUT, false, HR_NONE);
  if (id == HR_NONE) return HR_NONE;
  b->graph->values[id].batch_axis = (int8_t)batch.axis;
  b->graph->values[id].batch_rows = (int32_t)batch.rows;
  return id;
}

hr_id hr__view(hr_builder *b, hr_id value, int64_t first, int64_t count) {
  if (b->status != HR_OK) return HR_NONE;
  hr_value whole = b->graph->values[value];
  if (first < 0 || count < 1 || first > hr_desc_count(&whole.desc) - count) {
    b->status = hr__fail(&b->error, HR_FAILURE, whole.name, NULL, "a view lies outside its value");
    return HR_NONE;
  }
  hr_id id =
      value_create(b, whole.name, NULL, hr__desc1(whole.desc.dtype, count), HR_ROLE_ACTIVATION, false, whole.buffer);
  if (id == HR_NONE) return HR_NONE;
  hr_value *view = &b->graph->values[id];
  view->offset = whole.offset + (size_t)first * hr_dtype_bytes(whole.desc.dtype);
  view->producer = whole.producer;
  view->base = value;
  return id;
}

hr_id hr__view_as(hr_builder *b, hr_id value, size_t offset, const char *name, hr_desc desc) {
  if (b->status != HR_OK) return HR_NONE;
  hr_value whole = b->graph->values[value];
  size_t all = hr_desc_bytes(&whole.desc), bytes = hr_desc_bytes(&desc);
  if (offset > all || bytes > all - offset || offset % hr_dtype_bytes(desc.dtype) != 0) {
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "a view lies outside its value");
    return HR_NONE;
  }
  hr_id id = value_create(b, name, NULL, desc, HR_ROLE_ACTIVATION, false, whole.buffer);
  if (id == HR_NONE) return HR_NONE;
  hr_value *view = &b->graph->values[id];
  view->offset = whole.offset + offset;
  view->producer = whole.producer;
  view->base = value;
  return id;
}

hr_id hr__storage(hr_builder *b, hr_id value) {
  if (b->status != HR_OK) return HR_NONE;
  hr_graph *g = b->graph;
  if (!TABLE_GROW(b, buffers, cap_buffers, n_buffers)) return builder_nomem(b);
  const hr_buffer *old = &g->buffers[g->values[value].buffer];
  g->buffers[g->n_buffers] = (hr_buffer){.name = g->values[value].name,
                                         .module = old->module,
                                         .bytes = old->bytes,
                                         .role = old->role,
                                         .program = b->program};
  return (hr_id)g->n_buffers++;
}

hr_id hr__control(hr_builder *b) {
  return hr__persistent(b, "control", HR_ROLE_INPUT, hr__desc1(HR_U8, (int64_t)sizeof(hr_control)), (hr_init){0});
}

/* Prefixes the message of an op's shape rule with node and op. */
static hr_id emit_failed(hr_builder *b, const hr_op *op, hr_status status) {
  hr_error why = b->error;
  b->status = hr__fail(&b->error, status == HR_OK ? HR_FAILURE : status, b->module, why.remedy, "%s: %s", op->name,
                       why.message);
  return HR_NONE;
}

/* The operand whose storage an output must take over, or HR_NONE for storage of its own. */
static hr_id output_place(const hr_builder *b, const hr_op *op, const hr_id *in, int n_in, int out) {
  const hr_graph *g = b->graph;
  for (int a = 0; a < op->n_alias; a++) {
    const hr_alias *alias = &op->alias[a];
    if (alias->out != out || alias->in >= n_in || in[alias->in] == HR_NONE) continue;
    hr_id buffer = g->values[in[alias->in]].buffer;
    if (alias->kind == HR_ALIAS_MUST || (alias->kind == HR_ALIAS_ACCUMULATE && g->buffers[buffer].persistent))
      return in[alias->in];
  }
  return HR_NONE;
}

/* Shapes of the operands into in_desc and of the results into out_desc; false after an error. */
static bool shapes_find(hr_builder *b, const hr_op *op, const hr_id *in, int n_in, const void *args, hr_desc *in_desc,
                        hr_desc *out_desc) {
  const hr_graph *g = b->graph;
  for (int i = 0; i < n_in; i++) {
    if (in[i] != HR_NONE && in[i] >= g->n_values) {
      b->status = hr__fail(&b->error, HR_FAILURE, b->module, NULL, "operand %d of %s is not a value", i, op->name);
      return false;
    }
    in_desc[i] = in[i] == HR_NONE ? (hr_desc){0} : g->values[in[i]].desc;
    if (in[i] == HR_NONE && (op->variadic || !(op->optional & (1u << i)))) {
      b->status = hr__fail(&b->error, HR_FAILURE, b->module, NULL, "%s needs operand %d", op->name, i);
      return false;
    }
  }
  hr_op_view view = {.in = in_desc, .out = out_desc, .n_in = n_in, .n_out = hr__op_results(op, args), .args = args};
  hr_status status = op->shape(&view, out_desc, &b->error);
  if (status != HR_OK) emit_failed(b, op, status);
  return status == HR_OK;
}

/* "module:op", or "module:op.1" of several outputs. Large graphs have one for every node: no formats. */
static const char *name_join(hr_arena *arena, const char *module, const hr_op *op, int n_out, int output) {
  size_t length = strlen(module), more = strlen(op->name);
  char *name = hr__arena_room(arena, length + more + 5, 1);
  if (!name) return NULL;
  memcpy(name, module, length);
  name[length] = ':';
  memcpy(name + length + 1, op->name, more);
  char *end = name + length + more + 1;
  if (n_out > 1) {
    *end++ = '.';
    if (output >= 10) *end++ = (char)('0' + output / 10 % 10);
    *end++ = (char)('0' + output % 10);
  }
  *end = '\0';
  return name;
}

/* Values for the results of the node that comes next, behind its operands in `ids`; false after an error. */
static bool outputs_create(hr_builder *b, const hr_op *op, hr_id *ids, int n_in, int n_out, const hr_desc *desc) {
  hr_graph *g = b->graph;
  for (int j = 0; j < n_out; j++) {
    hr_id place = output_place(b, op, ids, n_in, j);
    const char *name = name_join(&g->arena, b->module, op, n_out, j);
    if (!name) builder_nomem(b);
    if (!name) return false;
    hr_id buffer = place == HR_NONE ? HR_NONE : g->values[place].buffer;
    /* a copy belongs to whoever has what it is of */
    const char *module = op->transfer != HR_TRANSFER_NONE ? g->buffers[g->values[ids[0]].buffer].module : b->module;
    hr_id value = value_create(b, name, module, desc[j], HR_ROLE_ACTIVATION, false, buffer);
    if (value == HR_NONE) return false;
    if (place != HR_NONE) g->values[value].offset = g->values[place].offset; /* a view is updated where it lies */
    g->values[value].producer = (hr_id)g->n_nodes;
    ids[n_in + j] = value;
  }
  return true;
}

hr_id hr__emit(hr_builder *b, const hr_op *op, const hr_id *in, int n_in, const void *args) {
  if (b->status != HR_OK) return HR_NONE;
  hr_graph *g = b->graph;
  if (b->program == HR_NONE) {
    b->status = hr__fail(&b->error, HR_FAILURE, op->name, NULL, "a node needs a program");
    return HR_NONE;
  }
  if (!op->variadic && n_in != op->n_in) {
    b->status =
        hr__fail(&b->error, HR_FAILURE, b->module, NULL, "%s takes %d operands, got %d", op->name, op->n_in, n_in);
    return HR_NONE;
  }
  int n_out = hr__op_results(op, args);
  hr_id *ids = hr__arena_room(&g->arena, (size_t)n_in + (size_t)n_out, sizeof *ids);
  void *args_copy = op->args_bytes ? hr__arena_room(&g->arena, 1, op->args_bytes) : NULL;
  if (!ids || (op->args_bytes && !args_copy)) return builder_nomem(b);
  if (args_copy) memcpy(args_copy, args, op->args_bytes);
  if (n_in) memcpy(ids, in, (size_t)n_in * sizeof *ids);

  hr_desc few[2 * HR_OP_OPERANDS];
  bool many = n_in + n_out > 2 * HR_OP_OPERANDS;
  hr_desc *desc = many ? hr__alloc((size_t)(n_in + n_out) * sizeof *desc) : few;
  if (!desc) return builder_nomem(b);
  memset(desc + n_in, 0, (size_t)n_out * sizeof *desc);
  bool made = shapes_find(b, op, in, n_in, args_copy, desc, desc + n_in) &&
              outputs_create(b, op, ids, n_in, n_out, desc + n_in);
  if (many) hr__free(desc);
  if (!made) return HR_NONE;
  if (!TABLE_GROW(b, nodes, cap_nodes, n_nodes)) return builder_nomem(b);
  hr_id node = (hr_id)g->n_nodes;
  g->nodes[g->n_nodes++] = (hr_node){.op = op,
                                     .in = ids,
                                     .out = ids + n_in,
                                     .n_in = n_in,
                                     .n_out = n_out,
                                     .args = args_copy,
                                     .module = b->module,
                                     .program = b->program,
                                     .block = b->block,
                                     .phase = b->phase,
                                     .place = HR_ON_DEVICE};
  /* A node for an earlier program waits behind the last one until hr__graph_regroup. */
  hr_program *program = &g->programs[b->program];
  if (program->first + program->count == node) program->count++;
  for (int i = 0; i < n_in + n_out; i++)
    if (ids[i] != HR_NONE) g->buffers[g->values[ids[i]].buffer].programs |= 1u << b->program;
  return ids[n_in];
}

hr_id hr__node_out(const hr_builder *b, hr_id value, int out) {
  if (b->status != HR_OK || value == HR_NONE) return HR_NONE;
  return b->graph->nodes[b->graph->values[value].producer].out[out];
}

hr_id hr__detached(hr_builder *b, hr_id value) {
  if (b->status != HR_OK || value == HR_NONE) return HR_NONE;
  b->graph->values[value].detached = true;
  return value;
}

void hr__rows_along(hr_builder *b, hr_id value, int axis) {
  if (b->status == HR_OK && value != HR_NONE) b->graph->values[value].row_axis = (int8_t)axis;
}

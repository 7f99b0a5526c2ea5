/* The graph: buffers, values, nodes, blocks and programs. The one intermediate form between model and plan.
 *
 * - A buffer is storage: bytes, a role, a home tier. A persistent buffer lives as long as the run and is shared by all
 *   programs; any other belongs to one program.
 * - A value is a typed view of a buffer (offset + strides) with one producer. In-place results are new values of the
 *   same buffer; reading a value after its buffer was overwritten is a verifier error.
 * - A stacked value holds the rows of several tensors one below the other, so that one product serves them all: nodes
 *   read the whole, and its members, views that lie right behind it in the table of values, are what files, settings
 *   and messages know by name.
 * - A node applies an op to values. Nodes are kept in execution order, grouped by program.
 * - A block is a region marked by the model builder; blocks nest.
 * - A program is a run of nodes that executes as a whole. Its key says what it is for; its name is a label for people.
 *
 * Objects are named by index (hr_id) so that a graph can be dumped, compared and copied. All storage belongs to the
 * graph's arena.
 */
#ifndef HR_GRAPH_GRAPH_H
#define HR_GRAPH_GRAPH_H

#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "graph/init.h"
#include "graph/op.h"

typedef uint32_t hr_id;
#define HR_NONE    UINT32_MAX
#define HR_DROPPED (UINT32_MAX - 1) /* producer of a value whose node was dropped: nothing reads it */

typedef enum hr_role {
  HR_ROLE_PARAMETER,
  HR_ROLE_GRADIENT,
  HR_ROLE_OPTIMIZER,
  HR_ROLE_STATE,   /* of the model, without gradient: running statistics */
  HR_ROLE_AVERAGE, /* of a parameter over the steps, "ema.<parameter>" */
  HR_ROLE_CACHE,   /* keys and values, or states, of the sequences being generated: never saved */
  HR_ROLE_ACTIVATION,
  HR_ROLE_INPUT,   /* written by the host before a program runs: batches, the control block */
  HR_ROLE_OUTPUT,  /* read by the host after a program ran: loss, gradient norm */
  HR_ROLE_STAGING, /* room for copies between tiers */
  HR_ROLE_COUNT
} hr_role;
const char *hr_role_name(hr_role role);

typedef struct hr_buffer {
  const char *name;
  /* Whose it is: of what nodes make, their module; of parameters and all beside them, the one around. */
  const char *module;
  size_t bytes;
  hr_role role;
  hr_tier home;
  bool persistent;
  bool sketched;     /* smaller than its values: these stand for several that follow one another in it. Never run */
  hr_id program;     /* owner; HR_NONE when persistent */
  uint32_t programs; /* bit p: program p touches it; 0: storage given up (its value moved to another buffer) */
} hr_buffer;

/* What is looked at most comes first, side by side: large graphs are walked many times. */
typedef struct hr_value {
  const char *name;
  hr_id buffer;
  hr_id producer; /* node; HR_NONE for persistent values and inputs; HR_DROPPED */
  hr_id base;     /* value that this one is a view of (hr__view) or a member of (hr__stacked); HR_NONE */
  hr_id members;  /* of a stacked value: how many values right behind this one are its members; 0 */
  size_t offset;  /* bytes into the buffer */
  hr_desc desc;
  int64_t stride[HR_RANK]; /* elements */
  hr_init init;            /* persistent values only */
  hr_id gradient;          /* of a trained parameter, set by grad; HR_NONE: no path leads from it to a loss */
  int32_t batch_rows;      /* of an input, as hr_batch */
  int8_t batch_axis;
  int8_t row_axis; /* rows along it may be made a few at a time (hr__rows_along); 0: none is named */
  bool trained;    /* parameter that receives a gradient */
  bool keep_f32;   /* parameter or cache that is f32 in every precision (adapters, states of a scan) */
  bool detached;   /* backward takes it as given: nothing flows to what it was made of (hr__detached) */
} hr_value;

typedef enum hr_phase { HR_FORWARD, HR_BACKWARD, HR_UPDATE } hr_phase;
const char *hr_phase_name(hr_phase phase);

/* Where a node runs; consecutive nodes of one place form a segment of the program. */
typedef enum hr_place { HR_ON_DEVICE, HR_ON_HOST } hr_place;

typedef struct hr_node {
  const hr_op *op;
  const hr_id *in; /* HR_NONE: absent */
  const hr_id *out;
  int n_in, n_out;
  const void *args;
  /* Path of the module that asked for it, as in the public checkpoints. A part of it may name several modules, joined
   * by '+' (hr__module_member): "model.layers.0.self_attn.q_proj+k_proj+v_proj". */
  const char *module;
  hr_id program;
  hr_id block; /* innermost, or HR_NONE */
  hr_phase phase;
  hr_place place;
} hr_node;

typedef struct hr_block {
  const char *name;
  hr_id parent;
  hr_id program;
  bool recompute; /* made again in backward whatever is kept of the blocks around it: one slice of a split */
  bool component; /* a part of the model around layers, which are kept or made again each by itself */
  hr_id origin;   /* the block that it repeats in a slice; HR_NONE: it is as the model has declared it */
} hr_block;

/* What a program does. One micro-batch a step: `step` does all of it. Otherwise the first micro-batch writes gradients,
 * further ones add to them, and `update` applies them. */
typedef enum hr_program_kind {
  HR_PROGRAM_STEP,
  HR_PROGRAM_MICRO_FIRST,
  HR_PROGRAM_MICRO_NEXT,
  HR_PROGRAM_UPDATE,
  HR_PROGRAM_EVAL,
  HR_PROGRAM_FEATURES,
  HR_PROGRAM_GENERATE,
  HR_PROGRAM_KINDS
} hr_program_kind;
const char *hr_program_kind_name(hr_program_kind kind); /* "step", "micro_first", ... */

/* What a program is among those of its graph. */
typedef struct hr_program_key {
  hr_program_kind kind;
  int bucket; /* how many lengths of samples are longer than this program's; 0: the longest */
  int stage;  /* of the recipe, from 0 */
} hr_program_key;

/* Whether programs of this kind go forward and backward: they drop, and have gradients. */
static inline bool hr__program_kind_trains(hr_program_kind kind) {
  return kind == HR_PROGRAM_STEP || kind == HR_PROGRAM_MICRO_FIRST || kind == HR_PROGRAM_MICRO_NEXT;
}

/* What an output is: a value for whoever asks for it by name, or something that is reported of every batch. */
typedef enum hr_output_kind { HR_OUTPUT_VALUE, HR_OUTPUT_LOSS, HR_OUTPUT_METRIC } hr_output_kind;

enum { HR_PROGRAM_OUTPUTS = 32, HR_INPUTS = 40, HR_PROGRAMS = 32 /* bits of hr_buffer.programs */ };
typedef struct hr_program {
  hr_program_key key;
  const char *name;   /* for dumps and messages; nothing is decided by it */
  hr_id first, count; /* nodes[first .. first + count) */
  struct {
    const char *name;
    hr_id value;
    hr_output_kind kind;
    float weight;               /* of a loss among others */
    hr_id factor;               /* of a loss or metric: an input that it is multiplied by; HR_NONE */
  } output[HR_PROGRAM_OUTPUTS]; /* kept until the program ends */
  int n_outputs;
  struct {
    const char *name;
    hr_id value;
  } input[HR_INPUTS]; /* where the host writes a batch, once pass/inputs.c has given it room */
  int n_inputs;
} hr_program;

/* A parameter that is held packed (NF4): the value of this name is gone, others hold its codes and scales. They are
 * filled from the parameter's checkpoint tensor or from its init, read in pieces. */
typedef struct hr_packed {
  const char *name; /* of the parameter */
  hr_desc desc;     /* shape of the parameter, and the type it is unpacked to */
  hr_init init;
  hr_id codes, absmax;
  hr_id nested_absmax, nested_offset; /* HR_NONE without double quantization */
} hr_packed;

typedef struct hr_graph {
  hr_arena arena;
  hr_buffer *buffers;
  hr_value *values;
  hr_node *nodes;
  hr_block *blocks;
  hr_program *programs;
  hr_packed *packed;
  size_t n_buffers, n_values, n_nodes, n_blocks, n_programs, n_packed;
  size_t cap_buffers, cap_values, cap_nodes, cap_blocks, cap_programs, cap_packed;
  /* Hash table of values by name while the graph is built (names.c); HR_NONE: free; NULL: there is none. */
  hr_id *names;
  size_t n_names, cap_names;
} hr_graph;

hr_status hr__graph_create(hr_graph **out, hr_error *err);
void hr__graph_destroy(hr_graph *graph);

/* Shapes of a node's operands in the form op rules take; `storage` needs room for n_in + n_out descs. */
hr_op_view hr__node_view(const hr_graph *graph, const hr_node *node, hr_desc *storage);

/* A layer is an outermost block but for components: what is kept or made again, and what copies between tiers are timed
 * by. In slices of a component each layer of it has a repetition, which is a layer. */
hr_id hr__block_layer(const hr_graph *graph, hr_id block);              /* that it lies in; HR_NONE for HR_NONE */
bool hr__block_within(const hr_graph *graph, hr_id block, hr_id outer); /* it is `outer`, or lies in it */
/* Layers of a program as declared and in that order, also those without nodes: a numbering that no pass changes.
 * `blocks` has room for graph->n_blocks; returns how many there are. */
size_t hr__program_layers(const hr_graph *graph, hr_id program, hr_id *blocks);
/* The layer of that numbering that a block lies in, itself or by what its layer repeats; HR_NONE: none. */
hr_id hr__block_numbered(const hr_graph *graph, hr_id block);

hr_id hr__graph_find_value(const hr_graph *graph, const char *name); /* persistent or input, by name; HR_NONE */
bool hr__graph_name_value(hr_graph *graph, hr_id value); /* a new value can be found; false: out of memory */
hr_id hr__graph_find_program(const hr_graph *graph, hr_program_key key); /* HR_NONE */
hr_id hr__graph_find_kind(const hr_graph *graph, hr_program_kind kind);  /* of the longest samples, stage 0; HR_NONE */
hr_id hr__program_output(const hr_graph *graph, hr_id program, const char *name); /* value, HR_NONE */
/* The value that the host writes for an input; HR_NONE. */
hr_id hr__program_input(const hr_graph *graph, hr_id program, const char *name);

/* Whether a value is a persistent tensor as the world outside knows it: alone, or a member of a stacked value; neither
 * the stacked whole nor a view. Whoever reads, writes, counts or names tensors goes by this. */
bool hr__graph_is_tensor(const hr_graph *graph, hr_id value);
/* Number `i` of the modules that a path names, in the order of rows; false: it names no more. */
enum { HR_MODULE_PATH = 512 };
bool hr__module_member(const char *module, int i, char out[HR_MODULE_PATH]);

/* Puts nodes into a new order: order[0..count) names those that stay, program by program; others are dropped. Passes
 * append nodes through the builder and then arrange them. Node ids change; values keep theirs, those of dropped nodes
 * with HR_DROPPED as producer. */
hr_status hr__graph_arrange(hr_graph *graph, const hr_id *order, size_t count, hr_error *err);

/* The same for few nodes that are put between others: the last `count` ones, each in front of the node before[i] (as
 * ids are now, rising; of one program). Costs less, because operands of all others stay as they are. */
hr_status hr__graph_insert(hr_graph *graph, const hr_id *before, size_t count, hr_error *err);

/* Brings nodes that a stage appended into their programs (stable). */
hr_status hr__graph_regroup(hr_graph *graph, hr_error *err);

/* Moves everything to storage of its own size, when passes are done: what they left behind is released. Ids stay,
 * addresses change. After a failure the graph is as it was. */
hr_status hr__graph_compact(hr_graph *graph, hr_error *err);

/* How many buffers, values and nodes a graph is likely to have in the end: its tables are made for that. */
typedef struct hr_graph_room {
  size_t buffers, values, nodes;
} hr_graph_room;

/* The same graph once more, for passes to go on from. Until it is compacted it reads texts, arguments and operands in
 * the storage of `graph`, which must be there as long. */
hr_status hr__graph_copy(const hr_graph *graph, const hr_graph_room *room, hr_graph **out, hr_error *err);

/* Whether a value holds a part of a packed parameter. */
bool hr__graph_is_packed(const hr_graph *graph, hr_id value);

/* Trained parameters that grad has found no path to a loss for; nothing updates or decays them. Writes the first
 * `capacity` of them and returns how many there are. */
size_t hr__graph_untrained(const hr_graph *graph, hr_id *values, size_t capacity);

/* Everything a graph promises: ids in range, shapes as the ops say, strides inside buffers, no read of an overwritten
 * or dropped value, in-place only where an op allows it, programs contiguous. The message names node and op. Whether a
 * device has a kernel for a node's dtype is found by the plan, which knows the device. */
hr_status hr__graph_verify(const hr_graph *graph, hr_error *err);

/* Text for people and golden files: no addresses, no times, stable order. Transient values that no node touches are
 * left out. */
hr_status hr__graph_dump_text(const hr_graph *graph, FILE *to, hr_error *err);
json_t *hr__graph_json(const hr_graph *graph); /* the same as JSON; NULL: out of memory */

#endif

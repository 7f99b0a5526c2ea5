/* What the files of the split pass share. Only they include this. */
#ifndef HR_PASS_SPLIT_H
#define HR_PASS_SPLIT_H

#include "graph/batch.h"
#include "pass/pass.h"

#define HR_SPLIT_KEY "memory.split"

typedef struct hr_split_rule {
  const hr_doc_node *node; /* pattern: slices */
  int64_t slices;
  bool used;   /* a block or head is split, or left whole, by it */
  bool beaten; /* it fits a block that another rule, or a rule for a block around it, has taken */
} hr_split_rule;

/* A block that is split. Values made in it are cut in units of the batch: samples, or as many equal parts of each as
 * all that enters it has, where the rows of a sample stay apart too. */
typedef struct hr_region {
  hr_id block;
  size_t rule;
  hr_id first, last;          /* nodes, other blocks' may lie between */
  hr_id first_new, count_new; /* nodes that stand for them, at the place of the last one */
  int64_t parts;              /* of a sample: rows of a value in one unit are its rows of a sample by this */
  int64_t units;              /* that can be shared out to slices */
  bool by_rows;               /* cut along an axis that the model has named, not along the batch */
  int n_slices;               /* by rows: so far */
} hr_region;

/* What stands for something of the whole block in one slice of it. */
typedef struct hr_stand_in {
  hr_id id;
  hr_id slice; /* block of that slice; others have none yet */
} hr_stand_in;

/* Rows of a value along its axis, as they are in the slice that is being made. */
typedef struct hr_strip {
  hr_id slice; /* HR_NONE: none yet */
  hr_rows rows;
  hr_id id;
} hr_strip;

/* What splitting by rows knows; per value, unless said otherwise. */
typedef struct hr_row_tables {
  int8_t *axis;    /* rows along it can be made a few at a time; 0: not so */
  bool *apart;     /* per node: its result has an axis, and its rows are made of rows */
  bool *by_need;   /* made where it is read, a few rows at a time; others are whole */
  double *work;    /* arithmetic that an element takes, from what is whole */
  uint32_t *reads; /* by nodes */
  hr_rows *need;   /* by what is being made */
  hr_strip *strip;
  hr_id *gathered; /* per node: what it must know of all rows, or HR_NONE */
  hr_id *chain;    /* nodes that are to make a strip, the last one first */
  hr_rows *in;     /* per operand of a node */
  void *args;      /* room for those of any node */
} hr_row_tables;

typedef struct hr_splitter {
  hr_builder *b;
  const hr_recipe *recipe;
  hr_error *err;
  bool chosen; /* memory.split = auto: the outermost blocks that can be split, all alike */
  hr_split_rule *rules;
  size_t n_rules;
  hr_region *regions;
  size_t n_regions;
  /* All of these are about the graph as the pass found it. */
  size_t n_nodes, n_values, n_blocks;
  struct {
    hr_id first, last;
  } * spans;           /* per block: its nodes, those of inner blocks too */
  size_t *region_of;   /* per block: number + 1 of the region it lies in; 0: none */
  hr_batch *batch;     /* per value: in the whole graph */
  hr_batch *unit;      /* per value made in a region: with rows of a unit */
  bool *leaves;        /* per value: made in a region, read elsewhere */
  bool *repeated;      /* per node: in a region, and works on the batch */
  hr_id *joined;       /* per value: what stands for it outside of its region, or HR_NONE */
  hr_stand_in *sliced; /* per value */
  hr_stand_in *inner;  /* per block inside a region */
  hr_desc *descs;      /* room for the operands of any node */
  hr_batch *operands;
  hr_row_tables rows;
} hr_splitter;

/* split_rules.c */
hr_status hr__split_rules_read(hr_splitter *s, const hr_doc_node *tree);
hr_status hr__split_rules_make(hr_splitter *s, int64_t slices);     /* for memory.split = auto */
size_t hr__split_rule_find(const hr_splitter *s, const char *name); /* the first that fits; n_rules: none */
hr_status hr__split_rules_check_used(const hr_splitter *s);
/* Adds a name, with * for its numbers and `behind` behind it, to "a, b, c" unless it is there or there is no room. */
void hr__split_name_list(const char *name, const char *behind, char *list, size_t capacity);
hr_status hr__split_heads(hr_splitter *s); /* chunks of loss heads that rules name */

/* split_regions.c: what is split, and how. */
hr_status hr__split_regions(hr_splitter *s);
/* The region of a block or of a node; NULL: none. */
hr_region *hr__split_region(const hr_splitter *s, hr_id block);
hr_region *hr__split_node_region(const hr_splitter *s, hr_id node);
/* Where a value has its units in a region. */
hr_batch hr__split_units(const hr_splitter *s, const hr_region *r, hr_id value);
hr_status hr__split_coupled(const hr_splitter *s, const hr_region *r, const hr_node *node);

/* split_rows.c: along which axes rows are apart. */
hr_status hr__split_rows_follow(hr_splitter *s, size_t operands);
/* Whether a region can be cut along them, into as many slices as it has rows at most; its nodes are then to be
 * repeated. */
bool hr__split_rows_try(hr_splitter *s, hr_region *r);
/* What rows of a node's result 0 are made of: s->rows.in, per operand, and s->rows.args; `made`: the rows that come of
 * it. False: it cannot be cut. */
bool hr__split_rows_cut(hr_splitter *s, hr_id node, hr_rows rows, hr_rows *made);

/* split_strips.c: a region that is cut along them. */
hr_status hr__split_strips(hr_splitter *s, hr_region *r);

#endif

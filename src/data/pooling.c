/* See pooling.h. */
#include "data/pooling.h"

#include <inttypes.h>

static const char example[] = "write it as [1, 2, 4]";

static hr_status scale_read(const hr_recipe *recipe, const char *path, const hr_doc_node *node, hr_pooling *out,
                            hr_error *err) {
  enum { LARGEST = 1 << 20 };
  int64_t scale;
  if (node->kind != HR_DOC_SCALAR || !hr__doc_int(node, &scale) || scale < 1 || scale > LARGEST)
    return hr__recipe_fail_at(recipe, path, node, example, err, "a pooling scale is a whole number from 1 to %d",
                              LARGEST);
  if (out->count == HR_POOLING_SCALES)
    return hr__recipe_fail_at(recipe, path, node, "use fewer", err, "more than %d pooling scales", HR_POOLING_SCALES);
  out->scale[out->count++] = scale;
  return HR_OK;
}

hr_status hr__pooling_scales(const hr_recipe *recipe, const char *path, hr_pooling *out, hr_error *err) {
  *out = (hr_pooling){3, {1, 2, 4}};
  if (!hr__recipe_has(recipe, path)) return HR_OK;
  const hr_doc_node *tree = hr__recipe_tree(recipe, path);
  if (!tree || tree->kind != HR_DOC_LIST || !tree->child)
    return hr__recipe_fail(recipe, path, example, err, "pooling scales must be a list of whole numbers");
  out->count = 0;
  for (const hr_doc_node *node = tree->child; node; node = node->next)
    HR_TRY(scale_read(recipe, path, node, out, err));
  return HR_OK;
}

void hr__pooling_weights(const hr_pooling *pooling, int64_t length, int64_t first, int64_t room, float *to) {
  for (int i = 0; i < pooling->count; i++, to += room) {
    int64_t window = length / pooling->scale[i] > 1 ? length / pooling->scale[i] : 1;
    int64_t windows = (length + window - 1) / window;
    for (int64_t t = 0; t < room - first; t++) {
      int64_t begin = t / window * window, size = length - begin < window ? length - begin : window;
      to[first + t] = t < length ? (float)(1 / ((double)windows * (double)size)) : 0.0f;
    }
  }
}

/* See readme.h. */
#include "train/readme.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "format/file.h"

void hr__readme_write(const char *folder, const char *recipe) {
  char path[PATH_MAX], name[256], text[2048];
  const char *slash = strrchr(recipe, '/');
  recipe = slash ? slash + 1 : recipe;
  hr__text_escape(recipe, strlen(recipe), name, sizeof name);
  snprintf(path, sizeof path, "%s/README.txt", folder);
  int n = snprintf(
      text, sizeof text,
      "A run of headroom, by the recipe %s.\n\n"
      "log.jsonl              a line a step, evaluations, events: headroom log, headroom monitor\n"
      "generation-N           the checkpoint of step N, a model folder: headroom generate, merge; train --resume\n"
      "best                   the checkpoint of the best evaluation, with training.save_best\n"
      "events.out.tfevents.*  the same as log.jsonl for TensorBoard, with training.tensorboard\n"
      "answers                answers to questions about recordings, as pictures\n"
      "lock                   held by the process that trains\n",
      name);
  int fd = hr__file_calls.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return;
  bool written = n > 0 && hr__file_write_all(fd, path, text, (size_t)n, NULL) == HR_OK;
  (void)hr__file_calls.close(fd);
  if (!written) (void)hr__file_calls.unlink(path);
}

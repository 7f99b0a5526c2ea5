/* README.txt in the folder of a run: what else is in it, for somebody who finds it. */
#ifndef HR_TRAIN_README_H
#define HR_TRAIN_README_H

/* Written once: a file of that name is left as it is. One that cannot be written is not worth a run. */
void hr__readme_write(const char *folder, const char *recipe);

#endif

/* A scratch folder for tests of one executable, and small files in it. */
#ifndef HR_TEST_FORMAT_PART_FOLDER_H
#define HR_TEST_FORMAT_PART_FOLDER_H

#include <stddef.h>

/* cmocka group setup and teardown: makes the folder, removes it with the plain files in it. */
int folder_setup(void **state);
int folder_teardown(void **state);

/* Path of a file in the folder; one of a few rotating buffers. */
const char *folder_path(const char *name);
void folder_write(const char *name, const void *data, size_t bytes);
/* Reads a whole file into a static buffer, NUL-terminated; returns its length, or -1 when it is not there. */
long folder_read(const char *name, const char **text);
size_t folder_count(void); /* files in the folder */

#endif

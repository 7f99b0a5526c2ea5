/* Memory on the heap that finding samples again takes: it grows with their number, which is known once they are read.
 */
#ifndef HR_DATA_BYTES_H
#define HR_DATA_BYTES_H

#include <stdint.h>

typedef struct hr_data_bytes {
  uint64_t held;   /* while the data is open */
  uint64_t making; /* above that, while it is opened */
} hr_data_bytes;

#endif

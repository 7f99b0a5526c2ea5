/* Hashes from libraries: XXH3-128 for integrity and fingerprints, SHA-256 for weights_sha256. Streaming; hex output. */
#ifndef HR_BASE_HASH_H
#define HR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HR_XXH_HEX = 33, HR_SHA256_HEX = 65 }; /* hex digits + NUL */

void hr__xxh128_hex(const void *data, size_t bytes, char out[HR_XXH_HEX]);

typedef struct hr_xxh128 {
  uint64_t low, high;
} hr_xxh128;
hr_xxh128 hr__xxh128(const void *data, size_t bytes); /* the same hash as two words */

typedef struct hr_hash hr_hash; /* one running hash, of either kind */
typedef enum hr_hash_kind { HR_HASH_XXH128, HR_HASH_SHA256 } hr_hash_kind;
hr_status hr__hash_create(hr_hash_kind kind, hr_hash **out, hr_error *err);
hr_status hr__hash_update(hr_hash *hash, const void *data, size_t bytes, hr_error *err);
hr_status hr__hash_hex(hr_hash *hash, char out[HR_SHA256_HEX], hr_error *err); /* finishes; then only destroy */
void hr__hash_destroy(hr_hash *hash);

#endif

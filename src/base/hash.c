/* XXH3-128 (libxxhash, compiled in so that its state comes from our allocator) and SHA-256 (libcrypto). */
#include "base/hash.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct hr_hash {
  hr_hash_kind kind;
  EVP_MD_CTX *sha;   /* SHA-256 */
  XXH3_state_t *xxh; /* XXH3-128: inside `room`, at the 64-byte boundary it needs */
  unsigned char room[sizeof(XXH3_state_t) + 64];
};

static void hex_write(const unsigned char *bytes, size_t count, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * count] = '\0';
}

/* Big-endian, as xxhsum prints it. */
static void xxh_hex(XXH128_hash_t hash, char *out) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  hex_write(canonical.digest, sizeof canonical.digest, out);
}

hr_xxh128 hr__xxh128(const void *data, size_t bytes) {
  XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return (hr_xxh128){hash.low64, hash.high64};
}

void hr__xxh128_hex(const void *data, size_t bytes, char out[HR_XXH_HEX]) {
  xxh_hex(XXH3_128bits(data, bytes), out);
}

hr_status hr__hash_create(hr_hash_kind kind, hr_hash **out, hr_error *err) {
  *out = NULL;
  hr_hash *hash = hr__alloc_zero(1, sizeof *hash);
  if (!hash) return hr__nomem(err);
  hash->kind = kind;
  if (kind == HR_HASH_XXH128) {
    uintptr_t start = ((uintptr_t)hash->room + 63) & ~(uintptr_t)63;
    hash->xxh = (XXH3_state_t *)start;
    XXH3_128bits_reset(hash->xxh);
  } else {
    hash->sha = EVP_MD_CTX_new();
    if (!hash->sha) {
      hr__free(hash);
      return hr__nomem(err);
    }
    if (EVP_DigestInit_ex(hash->sha, EVP_sha256(), NULL) != 1) {
      hr__hash_destroy(hash);
      return hr__fail(err, HR_FAILURE, NULL, NULL, "SHA-256 is not available in libcrypto");
    }
  }
  *out = hash;
  return HR_OK;
}

hr_status hr__hash_update(hr_hash *hash, const void *data, size_t bytes, hr_error *err) {
  if (!bytes) return HR_OK;
  bool ok = hash->kind == HR_HASH_XXH128 ? XXH3_128bits_update(hash->xxh, data, bytes) == XXH_OK
                                         : EVP_DigestUpdate(hash->sha, data, bytes) == 1;
  return ok ? HR_OK : hr__fail(err, HR_FAILURE, NULL, NULL, "hashing failed");
}

hr_status hr__hash_hex(hr_hash *hash, char out[HR_SHA256_HEX], hr_error *err) {
  if (hash->kind == HR_HASH_XXH128) {
    xxh_hex(XXH3_128bits_digest(hash->xxh), out);
    return HR_OK;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_DigestFinal_ex(hash->sha, digest, &length) != 1 || length != 32)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "hashing failed");
  hex_write(digest, length, out);
  return HR_OK;
}

void hr__hash_destroy(hr_hash *hash) {
  if (!hash) return;
  EVP_MD_CTX_free(hash->sha);
  hr__free(hash);
}

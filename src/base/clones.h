/* HR_CLONES: compiles a hot function once per instruction set and picks one when the program starts, so that one binary
 * runs on any x86-64 and still uses wide vectors. The levels are those of the x86-64 psABI: v4 has AVX-512 with 16-bit
 * elements (bf16 conversions need them), v3 has AVX2 and FMA. Helpers a clone calls must be inlined to take part. Where
 * the compiler or a sanitizer does not go with it, it expands to nothing, and HR_CLONED is not there. */
#ifndef HR_BASE_CLONES_H
#define HR_BASE_CLONES_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(HR_ASAN) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define HR_CLONED 1
#else
#define HR_CLONES
#endif

#endif

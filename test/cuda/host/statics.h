/* Shared memory that kernels declare: __shared__ variables are static ones of the thread of the system that runs all
 * blocks, so that they lie together and a launch can begin with poison in all of them. Nothing else in the plug-in may
 * be thread_local.
 *
 * With AddressSanitizer they are plain static variables: it knows the ends of those. */
#ifndef HR_TEST_CUDA_HOST_STATICS_H
#define HR_TEST_CUDA_HOST_STATICS_H

#if HR_ASAN
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

namespace emulated {
void statics_poison(unsigned char with);
}

#endif

#include "statics.h"

#include <link.h>
#include <string.h>

namespace emulated {

#if HR_ASAN
void statics_poison(unsigned char) {}
#else

struct found {
  unsigned char *data;
  size_t bytes;
};

/* The loader's record of the file that this function is in. */
static int module_look(dl_phdr_info *info, size_t, void *to) {
  const ElfW(Addr) own = (ElfW(Addr))(void *)statics_poison;
  bool ours = false;
  size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) &part = info->dlpi_phdr[i];
    ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
    ours = ours || (part.p_type == PT_LOAD && own >= begin && own < begin + part.p_memsz);
    if (part.p_type == PT_TLS) bytes = part.p_memsz;
  }
  if (!ours) return 0;
  *(found *)to = {(unsigned char *)info->dlpi_tls_data, bytes};
  return 1;
}

void statics_poison(unsigned char with) {
  found statics = {};
  dl_iterate_phdr(module_look, &statics);
  if (statics.data) memset(statics.data, with, statics.bytes); /* NULL: no kernel has touched any yet */
}
#endif

} // namespace emulated

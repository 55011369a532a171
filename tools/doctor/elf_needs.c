/* elf_needs.c - see elf_needs.h. */
#include "tools/doctor/elf_needs.h"

#include <string.h>

#define MOST_SEARCH_BYTES (UINT64_C(1) << 30)

static bool
is_fatbin(const char *name)
{
    return strcmp(name, ".nv_fatbin") == 0;
}

bool
elf_needs_read(const struct elf_file *file, struct elf_needs *needs)
{
    struct elf_needs found = {.has_kernels = elf_file_has_section(file, is_fatbin)};
    const struct elf_text texts[] = {
        {"libcuda.so.1", &found.names_driver},
        {"cuGetProcAddress_v2", &found.names_driver_entry},
        {"libsoftgpu.so", &found.names_softgpu},
    };
    if (!elf_file_is_dynamic(file)) /* as one that was cut */
        return false;
    bool is_whole = elf_file_search(file, texts, sizeof(texts) / sizeof(texts[0]), MOST_SEARCH_BYTES);
    (void)is_whole; /* of a file that is too long, some is searched */
    *needs = found;
    return true;
}

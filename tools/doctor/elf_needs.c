/* elf_needs.c - see elf_needs.h. */
#include "tools/doctor/elf_needs.h"

#include "launcher/start/elf_parts.h"

#include <errno.h>
#include <string.h>

#define MOST_SEARCH_BYTES (UINT64_C(1) << 30)

static void
look_at_section(const Elf64_Shdr *sections, int index, const char *name, void *data)
{
    struct elf_needs *needs = data;
    if (strcmp(name, ".nv_fatbin") == 0 && sections[index].sh_type != SHT_NOBITS) /* which a file of symbols has */
        needs->has_kernels = true;
}

int
elf_needs_read(struct elf_source *source, struct elf_needs *needs)
{
    struct elf_needs found = {0};
    struct elf_parts parts;
    const struct elf_text texts[] = {
        {"libcuda.so.1", &found.names_driver},
        {"cuGetProcAddress_v2", &found.names_driver_entry},
        {"libsoftgpu.so", &found.names_softgpu},
    };
    bool ok = false;
    if (elf_parts_open(source, &parts)) {
        const Elf64_Phdr *dynamic = parts.dynamic; /* which a file that was cut does not have */
        ok = dynamic->p_filesz <= source->length && dynamic->p_offset <= source->length - dynamic->p_filesz;
        (void)elf_parts_sections(&parts, look_at_section, &found);
        bool is_whole = elf_parts_search(&parts, texts, sizeof(texts) / sizeof(texts[0]), MOST_SEARCH_BYTES);
        (void)is_whole; /* of a file that is too long, some is searched */
        elf_parts_close(&parts);
    }
    if (!ok || source->error != 0)
        return source->error != 0 ? source->error : EBADMSG;
    *needs = found;
    return 0;
}

/*
 * elf_needs.c - see elf_needs.h. Formats: System V ABI, chapters 4 and 5.
 */
#include "tools/doctor/elf_needs.h"

#include "launcher/common/xcalloc.h"
#include "launcher/start/elf_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than any linker writes, little enough to be read at once. */
#define MOST_DYNAMIC_BYTES (UINT64_C(1) << 20)
#define MOST_TABLE_BYTES   (UINT64_C(64) << 20)
#define MOST_SEARCH_BYTES  (UINT64_C(1) << 30)

enum { MOST_NEEDED = 1024, MOST_NAME_BYTES = 65536 };

/* What is being read, and the parts of it that others point into. */
struct reader {
    struct elf_parts parts;
    char *names; /* dynamic string table, with a NUL behind it */
    uint64_t names_bytes;
    struct elf_needs needs;
};

/* The place in the file of what the loader finds at `address`. */
static bool
offset_of_address(const struct reader *reader, uint64_t address, uint64_t *offset)
{
    for (int i = 0; i < reader->parts.header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &reader->parts.segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz) {
            *offset = segment->p_offset + (address - segment->p_vaddr);
            return *offset >= segment->p_offset;
        }
    }
    return false;
}

static bool
copy_name(const struct reader *reader, uint64_t offset, char **copy)
{
    const char *name = offset < reader->names_bytes ? reader->names + offset : NULL;
    if (name == NULL || strnlen(name, MOST_NAME_BYTES) == MOST_NAME_BYTES)
        return false;
    free(*copy); /* the last one counts, as for the loader */
    *copy = strdup(name);
    return *copy != NULL;
}

static bool
add_needed(struct reader *reader, uint64_t offset)
{
    struct elf_needs *needs = &reader->needs;
    if (needs->needed_count == MOST_NEEDED)
        return false;
    needs->needed = xrealloc(needs->needed, (needs->needed_count + 1) * sizeof(*needs->needed));
    needs->needed[needs->needed_count] = NULL;
    bool ok = copy_name(reader, offset, &needs->needed[needs->needed_count]);
    needs->needed_count += ok;
    return ok;
}

/* ---- the dynamic section ---- */

static uint64_t
dynamic_value(const Elf64_Dyn *entries, size_t count, int64_t tag)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; ++i) {
        if (entries[i].d_tag == tag)
            value = entries[i].d_un.d_val;
    }
    return value;
}

static bool
read_entries(struct reader *reader, const Elf64_Dyn *entries, size_t count)
{
    uint64_t names;
    uint64_t bytes = dynamic_value(entries, count, DT_STRSZ);
    if (!offset_of_address(reader, dynamic_value(entries, count, DT_STRTAB), &names))
        return false;
    reader->names = elf_source_get(reader->parts.source, bytes, names, MOST_TABLE_BYTES);
    if (reader->names == NULL)
        return false;
    reader->names_bytes = bytes;

    bool ok = true;
    for (size_t i = 0; ok && i < count && entries[i].d_tag != DT_NULL; ++i) {
        switch (entries[i].d_tag) {
        case DT_NEEDED:
            ok = add_needed(reader, entries[i].d_un.d_val);
            break;
        case DT_RPATH:
            ok = copy_name(reader, entries[i].d_un.d_val, &reader->needs.rpath);
            break;
        case DT_RUNPATH:
            ok = copy_name(reader, entries[i].d_un.d_val, &reader->needs.runpath);
            break;
        default:
            break;
        }
    }
    return ok;
}

static bool
read_dynamic(struct reader *reader)
{
    const Elf64_Phdr *segment = reader->parts.dynamic;
    Elf64_Dyn *entries =
        (Elf64_Dyn *)elf_source_get(reader->parts.source, segment->p_filesz, segment->p_offset, MOST_DYNAMIC_BYTES);
    if (entries == NULL)
        return false;
    bool ok = read_entries(reader, entries, segment->p_filesz / sizeof(*entries));
    free(entries);
    return ok;
}

/* ---- sections ---- */

static void
look_at_section(const Elf64_Shdr *sections, int index, const char *name, void *data)
{
    struct elf_needs *needs = data;
    if (strcmp(name, ".nv_fatbin") == 0 && sections[index].sh_type != SHT_NOBITS) /* which a file of symbols has */
        needs->has_kernels = true;
}

/* ---- texts ---- */

static bool
search_texts(struct reader *reader)
{
    struct elf_needs *needs = &reader->needs;
    const struct elf_text texts[] = {
        {"libcuda.so.1", &needs->names_driver},
        {"cuGetProcAddress_v2", &needs->names_driver_entry},
        {"libsoftgpu.so", &needs->names_softgpu},
        {"ddprun_interface", &needs->is_annotated},
    };
    return elf_parts_search(&reader->parts, texts, sizeof(texts) / sizeof(texts[0]), MOST_SEARCH_BYTES);
}

int
elf_needs_read(struct elf_source *source, struct elf_needs *needs)
{
    struct reader reader = {0};
    bool is_open = elf_parts_open(source, &reader.parts), ok = is_open && read_dynamic(&reader);
    if (ok) {
        (void)elf_parts_sections(&reader.parts, look_at_section, &reader.needs);
        (void)search_texts(&reader); /* of a file that is too long, some of it */
    }
    if (is_open)
        elf_parts_close(&reader.parts);
    free(reader.names);
    if (ok && source->error == 0) {
        *needs = reader.needs;
        return 0;
    }
    elf_needs_free(&reader.needs);
    return source->error != 0 ? source->error : EBADMSG;
}

void
elf_needs_free(struct elf_needs *needs)
{
    for (size_t i = 0; i < needs->needed_count; ++i)
        free(needs->needed[i]);
    free(needs->needed);
    free(needs->rpath);
    free(needs->runpath);
    *needs = (struct elf_needs){0};
}

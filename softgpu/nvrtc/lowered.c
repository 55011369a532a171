/*
 * lowered.c - what the name expressions of a program are called for the linker, read off the module.
 *
 * For expression n the source has a pointer softgpu_name_n, initialised with the expression's value (compile.c). The
 * module's tables say where the pointer is, what address the dynamic loader is to store in it, and which symbol has
 * that address. Tables: ELF specification (gABI), sections SHT_SYMTAB and SHT_RELA.
 */
#include "program.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ElfW names the structs of this machine; these are the macros that <link.h> lacks. */
#define SYMBOL_TYPE(info)     ELF64_ST_TYPE(info)
#define RELOCATION_TYPE(info) ELF64_R_TYPE(info)

#if defined(__aarch64__)
#define RELATIVE R_AARCH64_RELATIVE
#else
#define RELATIVE R_X86_64_RELATIVE
#endif

/* A module's bytes. Every access goes through part(), which says no where they end. */
struct image {
    const char *bytes;
    size_t length;
    const ElfW(Shdr) * sections;
    size_t section_count;
    const ElfW(Sym) * symbols;
    size_t symbol_count;
    const char *names; /* of symbols; ends with a NUL */
    size_t names_length;
};

static const void *
part(const struct image *image, uint64_t begin, uint64_t bytes)
{
    if (begin > image->length || bytes > image->length - begin)
        return NULL;
    return image->bytes + begin;
}

static const void *
part_of(const struct image *image, const ElfW(Shdr) * section)
{
    return part(image, section->sh_offset, section->sh_size);
}

static bool
open_image(const struct buffer *module, struct image *image)
{
    *image = (struct image){.bytes = module->data, .length = module->length};
    const ElfW(Ehdr) *head = part(image, 0, sizeof(*head));
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shentsize != sizeof(*image->sections))
        return false;
    image->section_count = head->e_shnum;
    image->sections = part(image, head->e_shoff, image->section_count * sizeof(*image->sections));
    for (size_t i = 0; image->sections != NULL && i < image->section_count; ++i) {
        const ElfW(Shdr) *section = &image->sections[i];
        if (section->sh_type != SHT_SYMTAB || section->sh_link >= image->section_count)
            continue;
        image->symbols = part_of(image, section);
        image->symbol_count = section->sh_size / sizeof(*image->symbols);
        image->names = part_of(image, &image->sections[section->sh_link]);
        image->names_length = image->sections[section->sh_link].sh_size;
    }
    return image->symbols != NULL && image->names != NULL && image->names_length > 0 &&
           image->names[image->names_length - 1] == '\0';
}

static const char *
name_of(const struct image *image, const ElfW(Sym) * symbol)
{
    return symbol->st_name < image->names_length ? image->names + symbol->st_name : "";
}

static const ElfW(Sym) * symbol_named(const struct image *image, const char *name)
{
    for (size_t i = 0; i < image->symbol_count; ++i) {
        if (strcmp(name_of(image, &image->symbols[i]), name) == 0)
            return &image->symbols[i];
    }
    return NULL;
}

static const ElfW(Sym) * symbol_at(const struct image *image, uint64_t address)
{
    for (size_t i = 0; i < image->symbol_count; ++i) {
        const int type = SYMBOL_TYPE(image->symbols[i].st_info);
        if (image->symbols[i].st_value == address && (type == STT_FUNC || type == STT_OBJECT))
            return &image->symbols[i];
    }
    return NULL;
}

/* What the loader stores in the pointer at `place`; 0: nothing. Modules bind their symbols themselves, so that it is an
 * address of their own. */
static uint64_t
pointee_of(const struct image *image, uint64_t place)
{
    for (size_t i = 0; i < image->section_count; ++i) {
        const ElfW(Rela) *entries = part_of(image, &image->sections[i]);
        if (image->sections[i].sh_type != SHT_RELA || entries == NULL)
            continue;
        for (size_t k = 0; k < image->sections[i].sh_size / sizeof(*entries); ++k) {
            if (entries[k].r_offset == place && RELOCATION_TYPE(entries[k].r_info) == RELATIVE)
                return (uint64_t)entries[k].r_addend;
        }
    }
    return 0;
}

/* Whether a function is a kernel. Each has a type softgpu_kernel of its own, whose name is in the module (see
 * linked_name() of softgpu/kernel_image.h). */
static bool
is_kernel(const struct image *image, const char *name)
{
    char *wanted = NULL;
    const bool is_mangled = strncmp(name, "_Z", 2) == 0;
    const int length = is_mangled ? asprintf(&wanted, "_ZTSZ%sE14softgpu_kernel", name + 2)
                                  : asprintf(&wanted, "_ZTSZ%zu%sE14softgpu_kernel", strlen(name), name);
    const bool found = length >= 0 && symbol_named(image, wanted) != NULL;
    if (length >= 0)
        free(wanted);
    return found;
}

static void
refuse_function(struct _nvrtcProgram *program, const char *expression)
{
    buffer_add_format(&program->log,
                      EXPRESSION_FILE
                      ": error: Name expression cannot form address of a non-__global__ function. Input "
                      "name expression was: \"%s\"\n\n"
                      "1 error detected in the compilation of \"%s\".\n",
                      expression, program->name);
}

nvrtcResult
lowered_find(struct _nvrtcProgram *program)
{
    struct image image;
    if (program->expressions.count == 0)
        return NVRTC_SUCCESS;
    if (!open_image(&program->module, &image))
        return NVRTC_ERROR_INTERNAL_ERROR;
    for (size_t i = 0; i < program->expressions.count; ++i) {
        char name[64];
        snprintf(name, sizeof(name), LOWERED_SYMBOL "%zu", i);
        const ElfW(Sym) *pointer = symbol_named(&image, name);
        const ElfW(Sym) *named = pointer != NULL ? symbol_at(&image, pointee_of(&image, pointer->st_value)) : NULL;
        if (named == NULL)
            return NVRTC_ERROR_INTERNAL_ERROR;
        if (SYMBOL_TYPE(named->st_info) == STT_FUNC && !is_kernel(&image, name_of(&image, named))) {
            refuse_function(program, program->expressions.items[i]);
            return NVRTC_ERROR_COMPILATION;
        }
        strings_add(&program->lowered, name_of(&image, named));
    }
    return program->lowered.failed ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_SUCCESS;
}

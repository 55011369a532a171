/*
 * variables.c - `__device__` and `__constant__` variables, which kernels reach without an argument. A kernel gets those
 * of its module as arguments after its own.
 *
 * The driver finds a variable by its name, and lists no names. Programs have them as text: nvcc hands each name to
 * cudaRegisterVar, and a module in memory has a table of them. So each text in the object that makes the launch which
 * could be a name is asked for, and so is each end of it, for linkers store a text once that ends another one. Code and
 * fat binaries, which have bytes that look like texts, are passed over.
 */
#include "tools/scout/trainer/scout.h"

#include <ctype.h>
#include <link.h>

enum { NAME_BYTES = 256, ASKED_AT_MOST = 1 << 20 };

static struct module {
    CUmodule handle;
    struct variable *variables;
    unsigned count;
} * modules;
static size_t module_count;

void (*variables_new)(CUdeviceptr address, size_t bytes);

struct search {
    uintptr_t base; /* of the object */
    struct module *module;
    unsigned asked;
};

/* Adds a variable of the module, once, and makes it a known allocation. */
static void
add_variable(struct module *module, CUdeviceptr address, size_t bytes)
{
    unsigned is_managed = 0;
    if (ANY(variable, module->variables, module->count, variable->address == address))
        return;
    (void)scout_state.driver.cuPointerGetAttributes_p(1, (CUpointer_attribute[]){CU_POINTER_ATTRIBUTE_IS_MANAGED},
                                                      (void *[]){&is_managed}, address);
    known_allocations_add(address, bytes, is_managed != 0 ? MEMORY_MANAGED : MEMORY_DEVICE);
    *SCOUT_GROWN(module->variables, module->count) = (struct variable){address, bytes};
    if (variables_new != NULL)
        variables_new(address, bytes);
}

/* The text that ends in front of `end`, and each end of it. */
static void
ask_for(struct search *search, const char *begin, const char *end)
{
    const char *first = end - begin > NAME_BYTES ? end - NAME_BYTES : begin;
    for (const char *name = end; name > first && search->asked < ASKED_AT_MOST;) {
        CUdeviceptr address = 0;
        size_t bytes = 0;
        --name;
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '$')
            return;
        if (isdigit((unsigned char)*name))
            continue;
        ++search->asked;
        if (scout_state.driver.cuModuleGetGlobal_p(&address, &bytes, search->module->handle, name) == CUDA_SUCCESS &&
            bytes > 0)
            add_variable(search->module, address, bytes);
    }
}

/* How many bytes of a fat binary of nvcc's follow the zero byte after its magic number and version; 0: it is none. */
static uint64_t
rest_of_fat_binary(const char *begin, const char *zero, const char *end)
{
    static const char magic[] = "\x50\xED\x55\xBA\x01";
    enum { SIGNED = sizeof(magic) - 1, HEADER = 16 };
    uint64_t bytes = 0;
    if (zero - begin >= SIGNED && end - zero > HEADER && memcmp(zero - SIGNED, magic, SIGNED) == 0)
        memcpy(&bytes, zero - SIGNED + sizeof(bytes), sizeof(bytes));
    return bytes < (uint64_t)(end - zero) ? bytes : 0;
}

/* All texts in the object's memory that nothing can write, without that of code if data have a segment of their own. */
static int
look_through(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    (void)size;
    bool has_data = ANY(part, info->dlpi_phdr, info->dlpi_phnum,
                        part->p_type == PT_LOAD && part->p_flags == PF_R && part->p_offset != 0);
    if (info->dlpi_addr != search->base)
        return 0;
    FOR_EACH(part, info->dlpi_phdr, info->dlpi_phnum) {
        const char *at = (const char *)(info->dlpi_addr + part->p_vaddr), *end = at + part->p_memsz;
        if (part->p_type != PT_LOAD || (part->p_flags & PF_R) == 0 || (part->p_flags & PF_W) != 0 ||
            (has_data && (part->p_flags & PF_X) != 0))
            continue;
        const char *zero;
        while ((zero = memchr(at, '\0', (size_t)(end - at))) != NULL) {
            ask_for(search, at, zero);
            at = zero + rest_of_fat_binary(at, zero, end) + 1;
        }
    }
    return 1;
}

/* The module with its variables; at its first launch these are looked for in the object that makes the call. */
static struct module *
module_of(CUmodule handle)
{
    struct module *known = FIND(module, modules, module_count, module->handle == handle);
    if (known != NULL)
        return known;
    struct search search = {.module = SCOUT_GROWN(modules, module_count)};
    search.module->handle = handle;
    if (names_caller(&search.base))
        (void)dl_iterate_phdr(look_through, &search);
    return search.module;
}

const struct variable *
variables_of(CUfunction function, unsigned *count_p)
{
    const struct driver *driver = &scout_state.driver;
    CUmodule handle = NULL;
    *count_p = 0;
    if (driver->cuFuncGetModule_p(&handle, function) != CUDA_SUCCESS)
        return NULL;
    const struct module *module = module_of(handle);
    *count_p = module->count;
    return module->variables;
}

void
variables_forget(void)
{
    FOR_EACH_MUTABLE(module, modules, module_count)
        module->handle = NULL; /* the lists stay: kernels refer to them */
}

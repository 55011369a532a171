/*
 * The look for variables of the device (tools/scout/trainer/variables.c) asks for the texts of an object's read-only
 * data, and each end of them: not for bytes of code, nor for those of a fat binary, which nvcc puts among the data. A
 * library of CUDA's, whose variables are no memory of the program, is asked for nothing.
 */
#include "tests/lib/test.h"
#include "tools/scout/trainer/scout.h"

#include <link.h>

struct scout_state scout_state;
/* Names without their last letters: with them they would be texts of this object's data. */
static const char *const names[] = {"in_the_dat", "the_dat", "in_the_cod", "in_a_binar", "after_a_binar"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };
static bool asked[NAMES], is_librarys;
static unsigned asks;

/* As nvcc writes it: magic number, version 1, 16 bytes of header, 32 that follow. */
static const struct binary {
    unsigned char header[16];
    char content[32], after[32];
} binary
    __attribute__((aligned(8), used)) = {{0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0, 32}, "x\0in_a_binary", "after_a_binary"};

__asm__(".text\n.asciz \"\\0in_the_code\"\n.section .rodata\n.asciz \"\\0in_the_data\"\n.text\n");

static CUresult
get_global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    (void)address, (void)bytes, (void)module;
    for (int i = 0; i < NAMES; ++i)
        asked[i] = asked[i] || (strlen(name) == strlen(names[i]) + 1 && strncmp(name, names[i], strlen(names[i])) == 0);
    ++asks;
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult
get_module(CUmodule *module, CUfunction function)
{
    *module = (CUmodule)function;
    return CUDA_SUCCESS;
}

static int
take_base(struct dl_phdr_info *info, size_t bytes, void *base_p)
{
    (void)bytes;
    *(uintptr_t *)base_p = info->dlpi_addr;
    return 1; /* the first one is the program */
}

bool
names_caller(uintptr_t *base_p)
{
    (void)dl_iterate_phdr(take_base, base_p);
    return !is_librarys;
}

void *
scout_grown(void *list, size_t count, size_t item)
{
    void *grown = calloc(count + 1, item);
    memcpy(grown, list != NULL ? list : grown, count * item);
    return grown;
}

void
known_allocations_add(uint64_t address, uint64_t bytes, enum memory_kind kind)
{
    (void)address, (void)bytes, (void)kind;
}

TEST(texts_of_data_are_asked_for)
{
    unsigned count;
    scout_state.driver.cuFuncGetModule_p = get_module;
    scout_state.driver.cuModuleGetGlobal_p = get_global;
    is_librarys = true;
    (void)variables_of((CUfunction)&asks, &count);
    ck_assert_uint_eq(asks, 0);
    is_librarys = false;
    (void)variables_of((CUfunction)&asked, &count);
    ck_assert(asked[0] && asked[1] && asked[4]);
    ck_assert(!asked[2] && !asked[3]);
}

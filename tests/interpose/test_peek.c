/*
 * test_peek.c - memory of the process is read whatever mapping it is in: ordinary pages, pages of a driver that
 * debuggers cannot read ([vvar] is one that every process has), up to where memory ends, and without a signal where
 * memory is missing; also where process_vm_writev is forbidden. And memory is written, where it may be, or not at all.
 */
#include "interpose/engine/core/core.h"

#include "tests/lib/test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGE = 4096, BYTES = 200000 };

/* For good, in this process: process_vm_writev is refused. False: there are no filters here. */
static bool
forbid_writev(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* Where the kernel's clock is; 0: this kernel shows no such mapping. */
static uint64_t
clock_page(void)
{
    char line[512];
    unsigned long begin = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && begin == 0 && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "[vvar]") != NULL)
            begin = strtoul(line, NULL, 16);
    }
    if (maps != NULL)
        fclose(maps);
    return begin;
}

static void
check_reads(void)
{
    static unsigned char source[BYTES], seen[BYTES];
    for (size_t i = 0; i < BYTES; ++i)
        source[i] = (unsigned char)(i * 7 + i / 256);
    ck_assert_uint_eq(peek((uint64_t)(uintptr_t)source, seen, BYTES), BYTES);
    ck_assert_mem_eq(seen, source, BYTES);

    /* Memory ends after one page. */
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    memset(pages, 5, PAGE);
    ck_assert_int_eq(munmap(pages + PAGE, PAGE), 0);
    ck_assert_uint_eq(peek((uint64_t)(uintptr_t)pages, seen, PAGE), PAGE);
    ck_assert_uint_eq(peek((uint64_t)(uintptr_t)pages + PAGE, seen, 8), 0);
    ck_assert_uint_lt(peek((uint64_t)(uintptr_t)pages + PAGE - 16, seen, 64), 64);
    ck_assert_int_eq(munmap(pages, PAGE), 0);
    ck_assert_uint_eq(peek((uint64_t)(uintptr_t)pages, seen, 8), 0);
    ck_assert_uint_eq(peek(0, seen, 8), 0);

    uint64_t drivers_page = clock_page();
    if (drivers_page == 0) {
        printf("# no [vvar] here: mappings of a driver are not tried\n");
        return;
    }
    struct iovec local = {seen, 64}, remote = {(void *)(uintptr_t)drivers_page, 64};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 64)
        printf("# debuggers can read [vvar] here\n");
    ck_assert_uint_eq(peek(drivers_page, seen, 64), 64);
}

TEST(memory_is_written)
{
    static const unsigned char source[PAGE] = {1, 2, 3};
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_uint_eq(poke((uint64_t)(uintptr_t)pages, source, PAGE), PAGE);
    ck_assert_mem_eq(pages, source, PAGE);
    ck_assert_int_eq(mprotect(pages, PAGE, PROT_READ), 0);
    ck_assert_int_eq(munmap(pages + PAGE, PAGE), 0);
    ck_assert_uint_eq(poke((uint64_t)(uintptr_t)pages, source, 8), 0);
    ck_assert_uint_eq(poke((uint64_t)(uintptr_t)pages + PAGE, source, 8), 0);
    ck_assert_int_eq(munmap(pages, PAGE), 0);
}

TEST(all_mappings_are_read)
{
    check_reads();
}

/* Last in its process. */
TEST(and_without_process_vm_writev)
{
    if (forbid_writev())
        check_reads();
    else
        printf("# no filters of system calls here\n");
}

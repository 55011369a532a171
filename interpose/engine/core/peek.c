/*
 * peek.c - reads and writes memory of the process that may be gone at any moment, or belong to a device's driver.
 *
 * The kernel does it in the process's place, as any system call uses a buffer: what is not there is an error and not
 * a signal, and pages that only a driver's fault handler can bring (pinned and managed memory) come as for a plain
 * read. That is what process_vm_readv and /proc/self/mem do not do: they read as a debugger does, page by page, and
 * such mappings refuse them. Calls nothing of CUDA; any thread. System calls are made directly: AddressSanitizer takes
 * the C library's for accesses of the program.
 */
#include "interpose/engine/core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Through a pipe: where filters of system calls, as containers have them, forbid the others. */
static size_t
copy_through_pipe(const char *from, char *to, size_t bytes)
{
    int ends[2];
    size_t done = 0;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return 0;
    while (done < bytes) { /* in pieces that fit into it */
        ssize_t got = syscall(SYS_write, ends[1], from + done, bytes - done);
        if (got <= 0 || syscall(SYS_read, ends[0], to + done, (size_t)got) != got)
            break;
        done += (size_t)got;
    }
    close(ends[0]);
    close(ends[1]);
    return done;
}

size_t
peek(uint64_t address, void *to, size_t bytes)
{
    /* To ourselves: the source is the side that is read plainly. */
    struct iovec source = {(void *)(uintptr_t)address, bytes}, target = {to, bytes};
    ssize_t got = syscall(SYS_process_vm_writev, getpid(), &source, 1, &target, 1, 0);
    if (got >= 0 || errno == EFAULT)
        return got > 0 ? (size_t)got : 0;
    return copy_through_pipe((const char *)(uintptr_t)address, to, bytes);
}

size_t
poke(uint64_t address, const void *from, size_t bytes)
{
    /* From ourselves: the target is the side that is written plainly. */
    struct iovec source = {(void *)(uintptr_t)from, bytes}, target = {(void *)(uintptr_t)address, bytes};
    ssize_t got = syscall(SYS_process_vm_readv, getpid(), &target, 1, &source, 1, 0);
    if (got >= 0 || errno == EFAULT)
        return got > 0 ? (size_t)got : 0;
    return copy_through_pipe(from, (char *)(uintptr_t)address, bytes);
}

bool
memory_is_usable(const void *from, size_t bytes, bool written)
{
    const uint64_t begin = (uint64_t)(uintptr_t)from, ends[] = {begin, begin + bytes - 1};
    char byte;
    for (int i = 0; i < 2; ++i) {
        if (peek(ends[i], &byte, 1) != 1 || (written && poke(ends[i], &byte, 1) != 1))
            return false;
    }
    return true;
}

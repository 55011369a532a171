/*
 * constructor.c - a library that allocates device memory in its constructor, where the loader's lock is held.
 */
#include <dlfcn.h>
#include <stddef.h>

/* Set when its allocation has come back. */
__attribute__((visibility("default"))) volatile int constructor_allocated;

__attribute__((constructor)) static void
allocate(void)
{
    int (*allocate_memory)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(RTLD_DEFAULT, "test_start_allocate");
    unsigned long long memory;
    if (allocate_memory != NULL)
        constructor_allocated = 1 + allocate_memory(&memory, 1);
}

/*
 * real.c - the functions behind the hooks.
 *
 * They may be wanted before the constructor has run, by another preloaded library's: then the first hook looks its own
 * up. The constructor only sees to it that no look-up is left for later, when another thread may have the loader's
 * lock.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

static const char *const names[REAL_COUNT] = {
#define HOOK(name) #name,
#include "tools/sandbox/hooks.def"
#undef HOOK
};

/* Of those with several. Before glibc 2.36 dlsym(RTLD_NEXT) finds the oldest (glibc's bug 14932), which differs. */
static const char *const versions[REAL_COUNT] = {[REAL_realpath] = "GLIBC_2.3",
                                                 [REAL_pthread_cond_timedwait] = "GLIBC_2.3.2",
                                                 [REAL_posix_spawn] = "GLIBC_2.15",
                                                 [REAL_glob] = "GLIBC_2.27",
                                                 [REAL_glob64] = "GLIBC_2.27"};

static _Atomic(void *) found[REAL_COUNT];

static long
is_not_there(void)
{
    errno = ENOSYS;
    return -1;
}

void *
real_function(enum real_name name)
{
    void *function = atomic_load_explicit(&found[name], memory_order_relaxed);
    if (function == NULL) {
        const char *version = versions[name];
        function = version != NULL ? dlvsym(RTLD_NEXT, names[name], version) : NULL;
        if (function == NULL)
            function = dlsym(RTLD_NEXT, names[name]);
        if (function == NULL)
            function = (void *)is_not_there;
        atomic_store_explicit(&found[name], function, memory_order_relaxed);
    }
    return function;
}

static void __attribute__((constructor)) find_all(void)
{
    int saved = errno;
    (void)files_config();
    for (int name = 0; name < REAL_COUNT; ++name)
        (void)real_function((enum real_name)name);
    (void)dlerror(); /* of a function that this libc does not have */
    errno = saved;
}

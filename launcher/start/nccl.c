/* nccl.c - see nccl.h. */
#include "launcher/start/nccl.h"

#include "launcher/common/xcalloc.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

/* In the child. */
static int
ask_nccl(void *context)
{
    const char *name = context;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("none %s\n", dlerror());
        return 0;
    }
    int (*version)(int *version), number = 0;
    *(void **)&version = dlsym(library, "ncclGetVersion");
    struct link_map *map = NULL;
    if (version == NULL || version(&number) != 0)
        printf("none %s is not NCCL 2: ncclGetVersion does not answer\n", name);
    else
        printf("nccl %d %s\n", number, dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name);
    return 0;
}

void
nccl_ask(const char *name, struct child_result *result)
{
    child_call(ask_nccl, (void *)name, 60 /* s */, result);
}

int
nccl_version(const char *name)
{
    int number = 0;
    struct child_result *result = xcalloc(1, sizeof(*result));
    nccl_ask(name, result);
    if (result->end != CHILD_EXITED || result->code != 0 || sscanf(result->text, "nccl %d", &number) != 1)
        number = 0;
    free(result);
    return number;
}

/* nccl.c - see nccl.h. */
#include "launcher/start/nccl.h"

#include "launcher/common/xcalloc.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK_LIMIT_S = 60 };

/* In the child: prints the answer (nccl.h). */
static int
ask_nccl(void *context)
{
    const char *name = context, *path = name;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("none %s\n", dlerror());
        return 0;
    }
    int (*get_version)(int *version);
    int number = 0;
    *(void **)&get_version = dlsym(library, "ncclGetVersion");
    if (get_version == NULL || get_version(&number) != 0) {
        printf("none %s is not NCCL 2: ncclGetVersion does not answer\n", name);
        return 0;
    }
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        path = map->l_name;
    printf("nccl %d %s\n", number, path);
    return 0;
}

void
nccl_ask(const char *name, struct child_result *result)
{
    child_call(ask_nccl, (void *)name, ASK_LIMIT_S, result);
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

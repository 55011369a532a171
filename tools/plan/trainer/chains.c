/*
 * chains.c - a chain of calls that was met before is known again without unwinding it: for each of a program's
 * operations under `ddprun --plan`, of which most are passed over, that is most of what the host spends.
 *
 * What is kept is where on the stack each return address lay. Frames are found from the innermost outwards, each from
 * the one before: if the innermost lies where it lay, and the same return addresses stand in the same places, the chain
 * is the same. Where the platform keeps return addresses elsewhere, no chain is ever known again.
 *
 * Called by follow.c, under its lock.
 */
#include "tools/plan/trainer/player.h"

#include <dlfcn.h>

/* Of libgcc, which backtrace() loads: nothing is linked that the trainer may have by the same name. */
typedef int (*visit_fn)(void *context, void *data);
static int (*unwind)(visit_fn visit, void *data);
static uintptr_t (*address_in)(void *context);
static uintptr_t (*stack_in)(void *context);

enum { GO_ON = 0, STOP = 5 /* _URC_END_OF_STACK */ };

static _Thread_local char own_thread __attribute__((tls_model("initial-exec")));

/* Looks up the unwinder of libgcc_s, once. False: there is none. */
static bool
find_unwinder(void)
{
    static bool looked;
    if (!looked) {
        looked = true;
        void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
        void *found[] = {library != NULL ? dlsym(library, "_Unwind_Backtrace") : NULL,
                         library != NULL ? dlsym(library, "_Unwind_GetIP") : NULL,
                         library != NULL ? dlsym(library, "_Unwind_GetCFA") : NULL};
        memcpy(&unwind, &found[0], sizeof(unwind));
        memcpy(&address_in, &found[1], sizeof(address_in));
        memcpy(&stack_in, &found[2], sizeof(stack_in));
    }
    return unwind != NULL && address_in != NULL && stack_in != NULL;
}

struct visited {
    struct chain *chain;
    bool lost; /* a return address is not where it should be */
};

/* For each frame of a stack: adds it to the chain. Stops at its room, or where a return address is not where it should
 * be. */
static int
visit(void *context, void *data)
{
    struct visited *visited = data;
    struct chain *chain = visited->chain;
    const void *const *slot = (const void *const *)stack_in(context) - 1;
    const void *address = (const void *)address_in(context);
    if ((const void *)slot < chain->frame) /* of what was called from there */
        return GO_ON;
    if (address == NULL || chain->count == CHAIN_FRAMES)
        return STOP;
    visited->lost = *slot != address;
    chain->slots[chain->count] = slot;
    chain->addresses[chain->count++] = address;
    return visited->lost ? STOP : GO_ON;
}

void
chain_take(struct chain *chain, const void *frame)
{
    struct visited visited = {.chain = chain};
    chain->thread = &own_thread;
    chain->frame = frame;
    chain->count = 0;
    if (find_unwinder())
        (void)unwind(visit, &visited);
    if (visited.lost)
        chain->count = 0;
}

bool
chain_holds(const struct chain *chain, const void *frame)
{
    return chain->count > 0 && chain->frame == frame && chain->thread == &own_thread &&
           ALL_NUMBERS(i, 0, chain->count, *chain->slots[i] == chain->addresses[i]);
}

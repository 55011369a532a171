/*
 * host.c - files that the program uses, from the list of libddprun-files.so into the log.
 *
 * What libraries of ddprun and of CUDA read is left out.
 */
#include "tools/scout/trainer/scout.h"

#include "tools/sandbox/notes.h"

void
host_put_calls(void)
{
    static size_t done;
    const struct host_call *list = NULL;
    size_t count = ddprun_host_calls != NULL ? ddprun_host_calls(&list) : 0;
    for (; done < count; ++done) {
        const struct host_call *call = &list[done];
        if (!names_is_programs(call->stack, call->depth))
            continue;
        struct scout_file file = {
            .path = (char *)call->text, .writes = call->kind == CALL_WRITES, .bytes = call->bytes};
        (void)scout_writer_put(&scout_state.log, SCOUT_FILE, &file);
    }
}

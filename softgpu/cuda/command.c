/*
 * command.c - pieces of work, and references to the streams that they wait for: what graphs, captures and streams have
 * in common.
 */
#include "driver.h"

#include <stdlib.h>

/* ---- references ---- */

struct stream *
stream_hold(struct stream *stream)
{
    atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
    return stream;
}

void
stream_release(struct stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    pthread_cond_destroy(&stream->arrival);
    pthread_cond_destroy(&stream->progress);
    pthread_mutex_destroy(&stream->lock);
    object_give(OBJECT_STREAM, stream);
}

/* ---- commands ---- */

void *
command_new(size_t bytes, void (*run)(struct command *, struct stream *))
{
    struct command *command = malloc(bytes);
    if (command != NULL) {
        *command = (struct command){.run = run, .node_type = NODE_NONE};
    }
    return command;
}

void
command_drop(void *memory)
{
    struct command *command = memory;
    if (command->end != NULL) {
        command->end(command);
    }
    if (command->after.stream != NULL) {
        stream_release(command->after.stream);
    }
    for (unsigned i = 0; i < command->legacy_wait_count; ++i) {
        stream_release(command->legacy_waits[i].stream);
    }
    free(command->legacy_waits);
    free(command);
}

/*
 * races.c - changes of one place by two threads of a launch that nothing orders (softgpu/cc/races.c). A GPU loses all
 * but one of them; here threads run one after another, and none is lost.
 *
 * Each OS thread keeps the last change of a place, by its address, and how often threads have met before it. A second
 * change by another thread is a race if no threads have met since, at a barrier, in a warp's function or by an atomic:
 * then it is certain. What other OS threads change (SOFTGPU_WORKERS) is not seen.
 */
#include "block.h"
#include "softgpu/calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 1 << 14, SITES = 64 };

struct change {
    const void *place;
    uint64_t meetings, before; /* `before`: the value that was there, as far as it fits */
    unsigned block[3], thread[3], number;
};

/* Of this OS thread. */
static __thread struct change *changes SOFTGPU_INITIAL_EXEC;
__thread uint64_t races_meetings SOFTGPU_INITIAL_EXEC;

/* Each is named once, and only as many. */
static _Atomic(const char *) said_files[SITES];
static _Atomic unsigned said_lines[SITES], said_count;

static bool
is_news(const char *file, unsigned line)
{
    const unsigned count = atomic_load(&said_count);
    for (unsigned i = 0; i < count; ++i) {
        if (said_lines[i] == line && strcmp(said_files[i], file) == 0)
            return false;
    }
    if (count == SITES)
        return false;
    said_files[count] = file;
    said_lines[count] = line;
    atomic_store(&said_count, count + 1); /* two OS threads at once: one place is named twice */
    return true;
}

static void
say_race(const struct change *a, const struct change *b, const char *file, unsigned line)
{
    char text[1024];
    const bool same_block = memcmp(a->block, b->block, sizeof(a->block)) == 0;
    const char *who = !same_block                                        ? "threads of two blocks"
                      : a->number / WARP_LANES == b->number / WARP_LANES ? "lanes of one warp"
                                                                         : "threads of two warps";
    const int length = snprintf(text, sizeof(text),
                                "softgpu: kernel %s: %s:%u: block (%u,%u,%u), thread (%u,%u,%u) and block (%u,%u,%u), "
                                "thread (%u,%u,%u) change %p, and "
                                "nothing orders them: %s. A GPU loses changes, the stand-in loses none. Let one thread "
                                "do it, or use an atomic\n",
                                kernel_here, file, line, a->block[0], a->block[1], a->block[2], a->thread[0],
                                a->thread[1], a->thread[2], b->block[0], b->block[1], b->block[2], b->thread[0],
                                b->thread[1], b->thread[2], b->place, who);
    ssize_t ignored = write(STDERR_FILENO, text, (size_t)length);
    (void)ignored;
}

void
softgpu_ordered(void)
{
    ++races_meetings;
}

void
softgpu_changed(const void *place, size_t bytes, const char *file, unsigned line)
{
    const struct softgpu_index b = softgpu_thread.indices_of_fibers.block, t = softgpu_thread.indices_of_fibers.thread;
    if (block_here == NULL)
        return;
    const char *const at = place, *const end = (const char *)block_running(block_here); /* of this thread's stack */
    if (at >= (const char *)__builtin_frame_address(0) && at < end)
        return;
    if (changes == NULL && (changes = calloc(PLACES, sizeof(*changes))) == NULL)
        return;
    struct change *last = &changes[((uintptr_t)place >> 2) * 0x9e3779b97f4a7c15u >> 50];
    struct change now = {place, races_meetings, 0, {b.x, b.y, b.z}, {t.x, t.y, t.z}, softgpu_thread.number};
    memcpy(&now.before, place, bytes < sizeof(now.before) ? bytes : sizeof(now.before));
    const bool other_block = memcmp(last->block, now.block, sizeof(now.block)) != 0;
    const bool other = other_block ? !arena_holds(place) : last->number != now.number;
    if (last->place == place && last->meetings == now.meetings && other && last->before != now.before &&
        is_news(file, line))
        say_race(last, &now, file, line);
    *last = now;
}

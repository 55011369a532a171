/*
 * observer.h - who is notified of what the engine does: its own watchers, and another library, which may change it.
 *
 * Watchers are rows of a table that start.c fills. Those that are on are notified of operations and buckets; each
 * switches itself on and off, and most are on in a few steps only.
 *
 * The other library has a table of calls that the engine makes.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_OBSERVER_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_OBSERVER_H

#include "interpose/engine/core/core.h"

struct group;
struct tensor;

/* In the order in which they are notified. */
enum watch {
    WATCH_UNAVERAGED, /* verify/unaveraged.c, until the first DDP_STEP */
    WATCH_DUPLICATES, /* verify/duplicate_batch.c, in the first steps */
    WATCH_TRACE,      /* report/trace.c */
    WATCH_RANGES,     /* core/ranges.c, where a tool listens */
    WATCH_NONFINITE,  /* verify/nonfinite.c */
    WATCH_NOISE,      /* measure/noise.c */
    WATCH_FORGOTTEN,  /* verify/forgotten.c, in the steps that it looks at */
    WATCH_COMMIT,     /* measure/commit_wait.c, after some steps */
    WATCHES
};

/* What a watcher is notified of; NULL: not of that. */
struct watcher {
    /* Before the operation goes to the driver, when it is known what it touches; any thread. */
    void (*operation_begins)(const struct operation *operation);
    /* After that, if it was on then. `runs`: it is enqueued, and not captured; `touches`: gradients, or what cannot be
     * seen. */
    void (*operation_ends)(const struct operation *operation, bool runs, bool touches);
    /* The issuer: a bucket is about to be launched early; `streams`: of the trainer, with work on it. */
    void (*bucket_ready)(const struct group *group, size_t bucket, uint64_t streams);
    /* The issuer, before a bucket is sent, early or at its boundary, and after. */
    void (*bucket_begins)(const struct group *group, size_t bucket, bool early);
    void (*bucket_ends)(const struct group *group, size_t bucket, bool early);
};

static inline void
watch(enum watch which, bool on)
{
    if (on)
        atomic_fetch_or(&engine_state.watching, 1u << which);
    else
        atomic_fetch_and(&engine_state.watching, ~(1u << which));
}

/* Notifies those of a mask, as engine_state.watching was: WATCHED(mask, bucket_begins, group, bucket, early). */
#define WATCHED(mask, call, ...)                                                         \
    do {                                                                                 \
        for (unsigned on_ = (mask); on_ != 0; on_ &= on_ - 1) {                          \
            const struct watcher *watcher_ = &engine_state.watchers[__builtin_ctz(on_)]; \
            if (watcher_->call != NULL)                                                  \
                watcher_->call(__VA_ARGS__);                                             \
        }                                                                                \
    } while (0)

/* ---- another library ---- */
/*
 * In a job there is none: engine_state.observer is NULL. A library that has an observer is linked of the engine's own
 * objects and of its own, and sets the pointer as it is loaded, before the engine starts (tools/check/trainer/). All
 * calls are there; each comes in the thread of the trainer's call, without the lock and without the issuer's role,
 * unless its comment says otherwise. `site` and what it points to live as long as the process.
 */

/* A DDP_REDUCE, and what it reduces. */
struct observed_reduction {
    CUdeviceptr address;
    enum memory_kind kind; /* MEMORY_DEVICE, MEMORY_MANAGED or MEMORY_HOST */
    size_t bytes;
    const struct reduce_call *call;
};

/* How a process of a world of one takes turns, where its observer has averages to play with. */
struct observed_rounds {
    unsigned turns; /* of a round; 0: as many as the job has ranks */
    bool plays_all; /* its device makes the work of every turn; else that of its rank */
};

/* A batch of a program with turns. */
struct observed_turn {
    int group;         /* that its regions step; below 0: not known before the DDP_STEP of the first batch */
    unsigned turn;     /* of its round, from 0: that of this rank */
    unsigned turns;    /* of a round */
    bool is_everyones; /* all ranks compute it: it is a round of its own */
    bool is_mine;      /* this process computes it */
    bool is_played;    /* and so it does with those of all ranks: the observer makes the averages */
};

struct observer {
    /* ---- start and end ---- */
    /* The engine starts; rank and world are known, and engine_state.options may be changed. `leave` ends the process
     * with code 0, when all ranks have come there, without what exit() calls. */
    void (*opens)(void (*leave)(void));
    /* Fills in what the shim gets: which rank of how many the program is to be, and in a world of one the calls that
     * are wanted, for nothing is reported to the engine there. */
    void (*shows)(struct engine *engine);
    /* The program ends with code 0, or the device of what is annotated is reset: there will be no further step. */
    void (*program_ends)(void);
    /* What would end the job: true if it is not to. Any thread that must not block. */
    bool (*takes_alarm)(const char *text);
    /* The job is ended for this reason. Any thread. */
    void (*job_stops)(const char *text);

    /* ---- annotations ---- */
    /* A parameter, for the first time; it holds what all ranks begin with. */
    void (*annotated)(const struct tensor *parameter);
    /* DDP_STEP, before anything of it is done; `captured`: into a graph. May not return: the program is ended. */
    void (*boundary_begins)(int group, bool captured, const struct ddp_site *site);
    /* Gradients and buffers are averaged, or will be on the device. */
    void (*boundary_ends)(int group);
    /* DDP_MEAN has found `value`, which the program has given as `own`; both of its `type`. May change what is found.
     */
    void (*mean)(void *value, double own, int type, const struct ddp_site *site);
    /* Around a DDP_REDUCE, in the order of a stream; the context is current. The first may not return. */
    void (*reduce_begins)(const struct observed_reduction *reduction, CUstream stream);
    void (*reduce_ends)(const struct observed_reduction *reduction, CUstream stream);
    /* DDP_SHARD: may change which share this process gets. */
    void (*shard)(size_t total, size_t *first, size_t *count, const struct ddp_site *site);

    /* DDP_TURN_BEGIN. May not return: the program is ended. */
    struct observed_rounds (*turns)(const struct ddp_site *site);
    /* A batch begins, with its first region; no work of it is enqueued yet. */
    void (*turn_begins)(const struct observed_turn *turn);
    /* Its DDP_STEP, before anything of it is done. Where one process plays all turns, the engine does nothing of it: at
     * the round's last one the averages are made here, at the others the memory of averages becomes what it was as the
     * batch began. */
    void (*turn_steps)(const struct observed_turn *turn);
    /* There, parameters are to be averaged in a round that will not be complete: `turn` of them have had theirs. */
    void (*turns_rest)(const struct observed_turn *turn);

    /* ---- work of the trainer's; any thread ---- */
    /* Around each operation. */
    void (*operation_begins)(const struct operation *operation);
    void (*operation_ends)(const struct operation *operation, bool enqueued);
    /* In place of both: a region of turns leaves it out. */
    void (*operation_left_out)(const struct operation *operation);
    /* A copy is about to bring `rows` rows of `bytes` bytes each, `pitch` bytes apart, to the device. */
    void (*copied)(const void *source, size_t bytes, size_t pitch, size_t rows);
};

/* Calls the observer, if there is one: OBSERVED(boundary_ends, group). */
#define OBSERVED(call, ...)                           \
    do {                                              \
        if (engine_state.observer != NULL)            \
            engine_state.observer->call(__VA_ARGS__); \
    } while (0)

#endif

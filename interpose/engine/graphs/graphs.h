/*
 * graphs.h - CUDA graphs: what captured work does to gradients, from its capture to the launches of what became of it.
 *
 * captures.c follows streams while they are captured: which nodes touch which gradients, and a DDP_STEP among them,
 * whose collectives are captured in its place. What is known at the end is a recording. graph_registry.c remembers
 * which graph and which executable graph has which recording. graph_launch.c takes a launch for what its recording
 * says: touches of gradients, one or more steps, or unknown work.
 *
 * Everything that a captured step needs is made while it is captured, and kept as long as a graph or executable graph
 * has the recording: buckets of its own, their buffers and tables. In a capture nothing waits, asks or allocates on a
 * captured stream, and no event of the world outside is recorded there.
 *
 * Used by step/ and, through struct engine, the hooks.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_GRAPHS_GRAPHS_H
#define DDPRUN_INTERPOSE_ENGINE_GRAPHS_GRAPHS_H

#include "interpose/engine/core/core.h"
#include "interpose/engine/core/state.h"

/* One DDP_STEP of a recording. */
struct captured_step {
    int group;
    const size_t *places; /* the group's, while the step is captured: later agreements change them; then NULL */
    struct shipment shipment;
    struct weight weight;
    struct ddp_site site;
    size_t marks_before;  /* touches of the capture before it */
    bool overlaps;        /* a bucket does not wait for the last gradient */
    uint64_t touch_count; /* of the group's gradients, since the step before */
};

/* A node that touches gradients: those of touched[first .. first + count). */
struct captured_node {
    CUgraphNode node;
    size_t first, count;
};

/* Memory of the host that each launch copies to the device; or, with 0 bytes, that its kernels read where it is. */
struct captured_source {
    const void *address;
    size_t bytes;
};

extern pthread_mutex_t recordings_mutex; /* of graph_registry.c */

/* What captured work does. Made by captures.c, constant when a graph has it, but for `opaque`. */
struct recording {
    unsigned references GUARDED_BY(recordings_mutex);
    uint64_t number;     /* of captures with DDP_STEP: the same on all ranks, from 1; 0: it has none */
    uint64_t placements; /* engine_state.placements when the capture began: while it is that, places mean the same */
    struct escape_count escapes; /* when the capture began */
    uint64_t call;               /* identity of its touches, for the history of intervals */
    _Atomic bool opaque;         /* it also does unseen work */
    bool on_buffer;

    struct captured_step *steps;
    size_t step_count;
    size_t *places; /* [place_count]: gradients touched before the first step, each once, by place in tensors[] */
    size_t place_count;

    size_t *touched; /* [touched_count]: gradients of each node */
    size_t touched_count, touched_capacity;
    struct captured_node *nodes;
    size_t node_count, node_capacity;
    struct captured_source *sources;
    size_t source_count, source_capacity;
};

/* Whether a launch with this recording is a step, or several. */
static inline bool
recording_steps(const struct recording *recording)
{
    return recording != NULL && recording->step_count > 0;
}

/* ---- captures.c ---- */
struct capture;
enum capture_state {
    CAPTURE_NONE,   /* the stream is not captured */
    CAPTURE_ACTIVE, /* what is enqueued becomes a node */
    CAPTURE_BROKEN, /* the driver will refuse what is enqueued, or cannot say: nothing may come of it */
};

/* *capture_p: the stream's capture, where it is active. */
enum capture_state capture_find(CUstream stream, struct capture **capture_p);

/* Whether it is an internal stream that is only ever captured. Any thread. */
bool capture_own_stream(CUstream stream);

/* An operation on gradients or buffers is about to be captured: it comes after the step before. */
void capture_before_touch(struct capture *capture, CUstream stream);

/* What a captured operation touches. */
struct captured_touch {
    const size_t *places; /* [count]: in tensors[]; with lock held they were */
    size_t count;
    bool everything; /* what it touches is unknown */
    bool on_buffer;
    bool declares; /* DDP_GRADIENT_READY */
    uint64_t call;
};

/* The operation that this thread is about to begin copies this memory of the host, too; if it is captured, every launch
 * does. */
void capture_source(const void *address, size_t bytes);
bool capture_has_sources(void);
void capture_drop_sources(void); /* the operation is over */

/* It has been captured. */
void capture_touch(struct capture *capture, CUstream stream, const struct captured_touch *touch);

/* With lock held: whether work on one of these, by place in tensors[], is being captured. */
bool captures_touch(const size_t *places, size_t count) WITH_LOCK;

/* For struct engine. */
void capture_begun(CUstream stream, bool into_graph, bool done);
void capture_changes(CUstream stream);
void *capture_ends(CUstream stream);
void capture_abandoned(CUstream stream); /* before the stream is destroyed: a capture that began there never ends */
/* A graph gets a node, or loses order, other than by a capture. Whether it is one that is being captured. */
bool capture_graph_changes(CUgraph graph, const char *call);

/* ---- graph_registry.c ---- */
struct recording *recording_new(void);
void recording_release(struct recording *recording);
/* The recording of a CUgraph or CUgraphExec, held for the caller; NULL: what it does is unknown. */
struct recording *recording_find(const void *handle);
/* The graph, or executable graph, has this recording from now on; NULL: none. */
void recording_set(const void *handle, bool executable, struct recording *recording);
/* The next graph (not executable) that has a recording, from *at_p on, which begins at 0; false: there are no more. */
bool recording_next_graph(size_t *at_p, CUgraph *graph_p);

/* For struct engine. */
void graph_cloned(CUgraph from, const CUgraph *clone, bool done);
void graph_goes(void *handle);
void graph_gone(void *handle, bool done);

#endif

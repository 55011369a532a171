/*
 * captures.h - what captures.c and graph_step.c share of an open capture.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_GRAPHS_CAPTURES_H
#define DDPRUN_INTERPOSE_ENGINE_GRAPHS_CAPTURES_H

#include "interpose/engine/graphs/graphs.h"

enum { CAPTURE_LANES = 8 };
#define NO_MARK SIZE_MAX

/* A touch of one gradient or buffer, in the order in which they were captured. */
struct mark {
    size_t place; /* in tensors[] */
    CUstream stream;
    pid_t owner;
    size_t first, count; /* of the capture's nodes: what comes after the touch depends on these */
    bool declares;       /* DDP_GRADIENT_READY */
    size_t previous;     /* the touch of the same tensor before this one, since the last step; or NO_MARK */
};

/* A captured stream on which something was touched. */
struct captured_stream {
    CUstream handle;
    pid_t owner;         /* of CU_STREAM_PER_THREAD: the thread; else 0 */
    size_t first, count; /* of the capture's nodes: where it has got to */
    size_t waited_for;   /* number of the step whose reduction it comes after */
    bool on_buffer;      /* buffers were touched since the last step */
};

/* An internal stream for the collectives of a capture. It is drawn into the capture, and free again at its end. */
struct capture_lane {
    CUstream stream;
    CUevent joins;   /* by which it enters */
    CUevent reduced; /* after everything of the capture's last step */
    bool taken;
};

struct capture {
    struct capture *next;
    cuuint64_t id;
    CUgraph graph;   /* that it makes; compared only */
    CUstream origin; /* where it began */
    pid_t origin_owner;
    bool unseen;            /* its begin was not seen */
    bool into_graph;        /* of the trainer's own making */
    const char *changed_by; /* a call that changed it other than by capturing work; or NULL */
    struct recording *recording;

    struct mark *marks GUARDED_BY(captures_mutex);
    size_t mark_count GUARDED_BY(captures_mutex), mark_capacity GUARDED_BY(captures_mutex);
    /* [place_count]: of each tensor the last touch since the last step of its group, or NO_MARK */
    size_t *last GUARDED_BY(captures_mutex);
    size_t place_count; /* constant */
    CUgraphNode *nodes GUARDED_BY(captures_mutex);
    size_t node_count GUARDED_BY(captures_mutex), node_capacity GUARDED_BY(captures_mutex);
    struct captured_stream *streams GUARDED_BY(captures_mutex);
    size_t stream_count GUARDED_BY(captures_mutex), stream_capacity GUARDED_BY(captures_mutex);

    struct capture_lane *lane; /* NULL: no step so far */
};

/* What the driver says of a stream. The nodes are its own, until the next call on the stream. */
struct capture_answer {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *nodes;
    size_t node_count;
};
bool capture_ask(CUstream stream, struct capture_answer *answer) MUST_USE;

/* captures_mutex guards what captures hold. */
#define WITH_CAPTURES REQUIRES(captures_mutex)
void capture_lock(void) ACQUIRES(captures_mutex);
void capture_unlock(void) RELEASES(captures_mutex);

/* The stream comes after the capture's last step. */
void capture_note_waited(struct capture *capture, CUstream stream);

/* The issuer: a free lane; ends the job if no lane is free. */
struct capture_lane *capture_take_lane(void) BY_ISSUER;

/* Fills the recording's places: gradients that the capture touches before its first step, each once; without a step,
 * all of them. */
void capture_list_places(struct capture *capture);

/* The capture is over: what is known of it is in its recording. */
void capture_leave(struct capture *capture);

#endif

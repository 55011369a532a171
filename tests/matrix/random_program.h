/*
 * random_program.h - what the seed of random.cu decides: the program's layers and habits. Included by random.cu only.
 */
#ifndef TESTS_MATRIX_RANDOM_PROGRAM_H
#define TESTS_MATRIX_RANDOM_PROGRAM_H

#include "layers.h"

enum { LAYERS_AT_MOST = 7, STREAMS_AT_MOST = 3, PASSES_AT_MOST = 3, JOBS_AT_MOST = LAYERS_AT_MOST };

/* How a layer's weight gradient is written. */
enum writer { BY_KERNEL, BY_PRODUCT, BY_ITEM, BY_COPY, BY_STRUCT, IN_HALVES, BY_TABLE, WRITERS };

struct layer {
    struct dense dense;
    enum writer writer;
    int stream;          /* of its gradients */
    bool zeroed_first;   /* by a memset at the beginning of the step; else the first pass overwrites */
    bool in_thread;      /* its gradients are enqueued by a second thread */
    int left_out_every;  /* steps; 0: never */
    int moved_every;     /* steps; 0: its gradients stay where they are */
    bool keeps_momentum; /* in the gradient itself, which is scaled after the update */
    bool in_block;       /* its gradients lie in the one block */
    bool declared;       /* DDP_GRADIENT_READY says when they are complete */
    float *scratch;
    void *tables_host, *tables_device; /* of BY_TABLE */
    int tables_used;
    cublasHandle_t blas;
};

static struct {
    int layers, widths[LAYERS_AT_MOST + 1], streams;
    int passes, other_passes, change_every, change_at; /* passes of steps that are another kind; 0: there are none */
    bool deferred;                                     /* weight gradients come after all deltas */
    bool shuffled;                                     /* in another order every few steps */
    bool on_default;                                   /* the main stream is the default stream */
    bool update_aside;                                 /* the optimizer has a stream of its own */
    bool clipped;
    bool step_in_thread;
    int log_every;   /* steps; a kernel reads a gradient before the boundary; 0: never */
    bool log_on_one; /* on rank 0 only */
    int log_layer;
    int wait_every;            /* steps; the host waits for the device */
    int look_every;            /* steps; a gradient is copied to the host between two passes; 0: never */
    int renew_every;           /* steps; side streams are destroyed and made anew; 0: never */
    int groups;                /* 2: layers take turns, and each half has an optimizer step of its own */
    bool second_first;         /* the second group's boundary comes before the first's */
    bool together;             /* gradients that never move lie in one block, which one memset zeroes */
    bool no_sync;              /* DDP_NO_SYNC around all passes but the last */
    bool buffered;             /* updates are scaled by a DDP_BUFFER, which only rank 0 computes right */
    int order[LAYERS_AT_MOST]; /* of annotations and updates */
} program;

static struct layer layers[LAYERS_AT_MOST];

/* ---- what the seed says ---- */

static unsigned random_state;

static unsigned
pick(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

/* In about one program of `of`, unless the feature is left out. A number is drawn in any case. */
static bool
chance(unsigned of, const char *feature)
{
    const char *without = getenv("MATRIX_WITHOUT");
    bool drawn = pick(of) == 0;
    return drawn && (without == NULL || strstr(without, feature) == NULL);
}

static void
shuffle(int *values, int count)
{
    for (int i = count - 1; i > 0; --i) {
        int j = (int)pick((unsigned)i + 1), kept = values[i];
        values[i] = values[j];
        values[j] = kept;
    }
}

static void
layer_decide(struct layer *layer, int l)
{
    layer->writer = (enum writer)pick(WRITERS);
    layer->stream = (int)pick((unsigned)program.streams + 1);
    layer->zeroed_first = chance(2, "zeroing");
    layer->in_thread = chance(3, "threads") && program.deferred;
    layer->left_out_every = chance(4, "left-out") ? 2 + (int)pick(6) : 0;
    if (program.widths[l] != program.widths[l + 1] || l == program.layers - 1)
        layer->left_out_every = 0; /* the last one's output is compared with the target */
    layer->moved_every = chance(4, "moves") ? 1 + (int)pick(4) : 0;
    layer->keeps_momentum = chance(4, "momentum");
    if (layer->keeps_momentum) {
        layer->moved_every = 0;
        layer->zeroed_first = false;
    }
}

static void
program_decide(void)
{
    random_state = options.seed * 2654435761u + 97u;
    for (int i = 0; i < 8; ++i)
        (void)pick(2);
    program.layers = 2 + (int)pick(LAYERS_AT_MOST - 1);
    int common = 8 + (int)pick(24);
    for (int l = 0; l <= program.layers; ++l)
        program.widths[l] = pick(3) > 0 ? common : 5 + (int)pick(36);
    program.streams = chance(2, "streams") ? 1 + (int)pick(STREAMS_AT_MOST) : 0;
    program.passes = 1 + (int)pick(PASSES_AT_MOST);
    bool changes = chance(3, "passes");
    program.other_passes = changes ? 1 + (int)pick(PASSES_AT_MOST) : 0;
    program.change_every = 2 + (int)pick(6);
    program.change_at = (int)pick(4) == 0 ? 6 + (int)pick(6) : 0; /* for good, instead of now and then */
    program.deferred = chance(2, "deferred");
    program.shuffled = chance(6, "shuffled");
    program.on_default = chance(4, "default");
    program.update_aside = chance(3, "aside");
    program.clipped = chance(3, "clipped");
    program.step_in_thread = chance(4, "step-in-thread");
    program.log_every = chance(3, "log") ? 1 + (int)pick(5) : 0;
    program.log_on_one = chance(2, "log-on-one");
    program.log_layer = (int)pick((unsigned)program.layers);
    program.wait_every = chance(3, "wait") ? 1 + (int)pick(4) : 0;
    for (int l = 0; l < program.layers; ++l)
        program.order[l] = l;
    shuffle(program.order, program.layers);
    for (int l = 0; l < program.layers; ++l)
        layer_decide(&layers[l], l);
    program.look_every = chance(3, "look") ? 2 + (int)pick(5) : 0;
    program.renew_every = chance(4, "renew") ? 1 + (int)pick(4) : 0;
    program.groups = chance(3, "groups") ? 2 : 1;
    program.second_first = pick(2) == 0;
    program.together = chance(3, "together");
    program.no_sync = chance(2, "no-sync");
    program.buffered = chance(3, "buffer");
    for (int l = 0; l < program.layers; ++l)
        layers[l].declared = chance(6, "declared");
}

static int
passes_of(int step)
{
    bool other = program.change_at > 0 ? step >= program.change_at : step % program.change_every == 0;
    return program.other_passes > 0 && other ? program.other_passes : program.passes;
}

/* Whether a step has more passes than one before it, unannounced: gradients are then written after their last write was
 * known. */
static bool
passes_grow(void)
{
    bool grow = false;
    for (int step = 1; step < options.steps; ++step)
        grow = grow || passes_of(step) > passes_of(step - 1);
    return grow && !program.no_sync;
}

static void
program_describe(void)
{
    static const char *const writers[WRITERS] = {"kernel", "product", "by item", "copy", "struct", "halves", "table"};
    fprintf(stderr, "seed %u: %d layers, %d side streams%s, passes %d", options.seed, program.layers, program.streams,
            program.on_default ? ", main is the default stream" : "", program.passes);
    if (program.other_passes > 0)
        fprintf(stderr, " or %d %s %d", program.other_passes, program.change_at > 0 ? "from step" : "every",
                program.change_at > 0 ? program.change_at : program.change_every);
    if (passes_grow())
        fprintf(stderr, ", passes grow");
    fprintf(stderr, "%s%s%s%s%s", program.deferred ? ", deferred" : "", program.shuffled ? ", shuffled" : "",
            program.update_aside ? ", update aside" : "", program.clipped ? ", clipped" : "",
            program.step_in_thread ? ", step in thread" : "");
    if (program.log_every > 0)
        fprintf(stderr, ", log of layer %d every %d%s", program.log_layer, program.log_every,
                program.log_on_one ? " on rank 0" : "");
    fprintf(stderr, ", waits every %d, looks every %d, new streams every %d%s%s\n", program.wait_every,
            program.look_every, program.renew_every,
            program.groups == 1    ? ""
            : program.second_first ? ", two groups, the second first"
                                   : ", two groups",
            program.together ? ", gradients together" : "");
    fprintf(stderr, "  %s, %s\n", program.no_sync ? "DDP_NO_SYNC" : "no DDP_NO_SYNC",
            program.buffered ? "DDP_BUFFER" : "no DDP_BUFFER");
    for (int l = 0; l < program.layers; ++l) {
        const struct layer *layer = &layers[l];
        fprintf(stderr, "  layer %d: %d to %d, %s on stream %d%s%s%s%s, left out every %d, moved every %d\n", l,
                program.widths[l], program.widths[l + 1], writers[layer->writer], layer->stream,
                layer->zeroed_first ? ", zeroed" : "", layer->in_thread ? ", in a thread" : "",
                layer->keeps_momentum ? ", keeps momentum" : "", layer->declared ? ", declared ready" : "",
                layer->left_out_every, layer->moved_every);
    }
}

static bool
is_left_out(const struct layer *layer, int step)
{
    return layer->left_out_every > 0 && step % layer->left_out_every == 1;
}

#endif

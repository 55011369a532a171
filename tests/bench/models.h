/*
 * models.h - models as the benchmarks of partitions know them: tensors, and when backward completes their gradients.
 *
 * Read from tests/bench/data/NAME.model, which names its source. Ready times are computed, not measured: each operation
 * takes its number of operations over the GPU's rate, and never less than a kernel does.
 */
#ifndef DDPRUN_TESTS_BENCH_MODELS_H
#define DDPRUN_TESTS_BENCH_MODELS_H

#include "bucketing/plan.h"

#include <stddef.h>
#include <stdint.h>

enum { MODEL_COUNT = 4, BYTES_PER_ELEMENT = 4 };

extern const char *const model_names[MODEL_COUNT];

/* Gradients in the order in which backward completes them. */
struct model {
    const char *name;
    struct plan_gradient *gradients; /* [count] */
    int64_t *ready_ns;               /* [count]: since the begin of backward */
    int64_t *spent_ns;               /* [count]: of backward since the gradient before */
    size_t *order;                   /* [count]: 0, 1, 2, ... */
    size_t count;
    uint64_t bytes;
    int64_t backward_ns;
};

/*
 * Reads data/NAME.model from `folder`. Ends the program with a line naming file and line if it cannot be read.
 * model_free() releases it.
 */
void model_read(const char *folder, const char *name, struct model *model);
void model_free(struct model *model);

#endif

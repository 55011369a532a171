/* models.c - see models.h. */
#include "models.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const model_names[MODEL_COUNT] = {"resnet50", "bert-large", "gpt2-124m", "small-tensors"};

/* One operation of forward. */
struct operation {
    uint64_t elements;
    double mflop;
};

struct reading {
    const char *path;
    int line;
    struct operation *operations;
    size_t count, capacity;
    size_t repeat_begin;
    long repeat; /* 0: not in a repeated part */
    double batch, tflops, least_us;
};

static void
fail(const struct reading *reading, const char *what)
{
    fprintf(stderr, "bench: %s:%d: %s\n", reading->path, reading->line, what);
    exit(1);
}

static void *
array(size_t count, size_t bytes)
{
    void *made = calloc(count + 1, bytes);
    if (made == NULL) {
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
    }
    return made;
}

static void
add_operation(struct reading *reading, struct operation operation)
{
    if (reading->count == reading->capacity) {
        size_t capacity = 2 * reading->capacity + 256;
        struct operation *grown = realloc(reading->operations, capacity * sizeof(*grown));
        if (grown == NULL)
            fail(reading, "out of memory");
        reading->operations = grown;
        reading->capacity = capacity;
    }
    reading->operations[reading->count++] = operation;
}

static void
end_repeat(struct reading *reading)
{
    size_t length = reading->count - reading->repeat_begin;
    for (long r = 1; r < reading->repeat; ++r) {
        for (size_t i = 0; i < length; ++i)
            add_operation(reading, reading->operations[reading->repeat_begin + i]);
    }
    reading->repeat = 0;
}

static void
take_line(struct reading *reading, const char *line)
{
    char name[128], rest[2];
    double number, mflop;
    unsigned long long elements;
    const struct {
        const char *name;
        double *value;
    } settings[] = {{"batch", &reading->batch}, {"tflops", &reading->tflops}, {"least_us", &reading->least_us}};
    if (sscanf(line, "%127s", name) != 1 || name[0] == '#')
        return;
    if (strcmp(name, "end") == 0 && reading->repeat > 0) {
        end_repeat(reading);
        return;
    }
    if (sscanf(line, "%127s %lf %1s", name, &number, rest) == 2) {
        if (strcmp(name, "repeat") == 0 && reading->repeat == 0 && number >= 1.0 && number <= 1e6) {
            reading->repeat = (long)number;
            reading->repeat_begin = reading->count;
            return;
        }
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); ++i) {
            if (strcmp(name, settings[i].name) == 0 && number > 0.0) {
                *settings[i].value = number;
                return;
            }
        }
    }
    if (sscanf(line, "%127s %llu %lf %1s", name, &elements, &mflop, rest) != 3 || mflop < 0.0)
        fail(reading, "not a line that the head of the file describes");
    add_operation(reading, (struct operation){elements, mflop});
}

/* The gradients as backward, from the last operation to the first, completes them. */
static void
fill_model(const struct reading *reading, struct model *model)
{
    double us = 0.0;
    model->gradients = array(reading->count, sizeof(model->gradients[0]));
    model->ready_ns = array(reading->count, sizeof(model->ready_ns[0]));
    model->spent_ns = array(reading->count, sizeof(model->spent_ns[0]));
    model->order = array(reading->count, sizeof(model->order[0]));
    for (size_t i = reading->count; i-- > 0;) {
        const struct operation *operation = &reading->operations[i];
        double spent_us = operation->mflop * reading->batch / reading->tflops; /* 1e6 / 1e12 of a second is one us */
        us += spent_us > reading->least_us ? spent_us : reading->least_us;
        if (operation->elements == 0)
            continue;
        size_t at = model->count++;
        model->gradients[at] = (struct plan_gradient){operation->elements * BYTES_PER_ELEMENT, 0};
        model->ready_ns[at] = (int64_t)(us * 1000.0);
        model->spent_ns[at] = model->ready_ns[at] - (at > 0 ? model->ready_ns[at - 1] : 0);
        model->order[at] = at;
        model->bytes += operation->elements * BYTES_PER_ELEMENT;
    }
    model->backward_ns = (int64_t)(us * 1000.0);
}

void
model_read(const char *folder, const char *name, struct model *model)
{
    char path[PATH_MAX], line[512];
    struct reading reading = {.path = path};
    snprintf(path, sizeof(path), "%s/%s.model", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fprintf(stderr, "bench: cannot read %s: %s\n", path, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        ++reading.line;
        take_line(&reading, line);
    }
    fclose(file);
    if (reading.repeat > 0 || reading.batch <= 0.0 || reading.tflops <= 0.0 || reading.least_us <= 0.0)
        fail(&reading, "ends without \"end\", or says no batch, tflops and least_us");
    *model = (struct model){.name = name};
    fill_model(&reading, model);
    free(reading.operations);
}

void
model_free(struct model *model)
{
    free(model->gradients);
    free(model->ready_ns);
    free(model->spent_ns);
    free(model->order);
    *model = (struct model){0};
}

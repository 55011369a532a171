/*
 * frame.h - what the trainers of check/ and scout/ share: names of habits and mistakes, options by a table, memory of
 * the device. Includes nothing of the product but ddprun.h.
 */
#ifndef TESTS_TOOLS_FRAME_H
#define TESTS_TOOLS_FRAME_H

#include "tests/lib/trainer.h"

#include <ddprun.h>

#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* ---- options ---- */

enum { MOST_NAMES = 8 };

/* Habits and mistakes: words of the command line, and values of --habit and --mistake. */
static const char *given_names[MOST_NAMES];

static inline bool
is(const char *name)
{
    for (const char *given : given_names)
        if (given != NULL && strcmp(given, name) == 0)
            return true;
    return false;
}

/* Which option `word` is: where its value goes, and of what kind ('i', 'u', 'f', 's', or 'b' for one without). */
struct option {
    const char *word;
    char kind;
    void *at;
};

static inline void
option_take(const struct option *option, const char *value)
{
    switch (option->kind) {
    case 'b':
        *(bool *)option->at = true;
        break;
    case 'i':
        *(int *)option->at = atoi(value);
        break;
    case 'u':
        *(unsigned *)option->at = (unsigned)strtoul(value, NULL, 10);
        break;
    case 'f':
        *(float *)option->at = strtof(value, NULL);
        break;
    default:
        *(const char **)option->at = value;
    }
}

static inline void
options_fail(const char *word, const char *known)
{
    fprintf(stderr, "%s: unknown, or without a value; names:%s\n", word, known);
    exit(2);
}

/* Whether `word` names habits and mistakes, joined by +, or is an option whose value does. */
static inline bool
name_take(const char *word, const char *value, const char *known)
{
    static int count;
    bool is_option = strcmp(word, "--habit") == 0 || strcmp(word, "--mistake") == 0;
    const char *name = is_option ? value : word;
    if (name == NULL || name[0] == '-')
        return false;
    for (char *one = strtok(strdup(name), "+"); one != NULL; one = strtok(NULL, "+")) {
        char blanks[64];
        snprintf(blanks, sizeof(blanks), " %s ", one);
        if (strstr(known, blanks) == NULL || count == MOST_NAMES)
            options_fail(one, known);
        given_names[count++] = one;
    }
    return true;
}

/*
 * Takes the command line. `known`: all names, with blanks around each. What is neither an option of the table nor a
 * name ends the program, with exit code 2.
 */
template <size_t N>
static void
options_take(int argc, char **argv, const struct option (&table)[N], const char *known)
{
    for (int i = 1; i < argc; ++i) {
        const struct option *found = NULL;
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        for (const struct option &option : table)
            if (strcmp(word, option.word) == 0)
                found = &option;
        if (found != NULL && (found->kind == 'b' || value != NULL))
            option_take(found, value);
        else if (found != NULL || !name_take(word, value, known))
            options_fail(word, known);
        i += found != NULL ? found->kind != 'b' : word[0] == '-';
    }
}

/* The same of a program that has names only. */
static inline void
names_take(int argc, char **argv, const char *known)
{
    const struct option none[] = {{"", 'b', NULL}};
    options_take(argc, argv, none, known);
}

/* ---- memory ---- */

static inline void *
device_memory(size_t bytes)
{
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    return memory;
}

static inline float *
device_floats(int count)
{
    return (float *)device_memory((size_t)count * sizeof(float));
}

static inline void *
pinned_memory(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocHost(&memory, bytes));
    memset(memory, 0, bytes);
    return memory;
}

/* ---- numbers ---- */

/* In [0, 1). */
static __host__ __device__ inline float
hashed_float(unsigned salt, unsigned number)
{
    unsigned x = salt * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x & 0xffffu) / 65536.0f;
}

/* The next one of a sequence, in [0, 1). */
static inline float
random_number(void)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24);
}

/* Memory of the device with random numbers of this spread around zero; with zeros if it is 0. */
static inline float *
floats(int count, float spread)
{
    float *memory, *host = (float *)calloc((size_t)count, sizeof(float));
    CHECK(cudaMalloc(&memory, (size_t)count * sizeof(float)));
    for (int i = 0; i < count && spread > 0; ++i)
        host[i] = spread * (random_number() - 0.5f);
    CHECK(cudaMemcpy(memory, host, (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
    free(host);
    return memory;
}

#endif

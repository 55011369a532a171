/*
 * frame.h - what the trainers of check/ and scout/ share: names of habits and mistakes, beside options, and kinds of
 * memory. Includes nothing of the product but ddprun.h.
 */
#ifndef TESTS_TOOLS_FRAME_H
#define TESTS_TOOLS_FRAME_H

#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_options.h"

#include <ddprun.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <string>
#include <time.h>

/* ---- names ---- */

enum { MOST_NAMES = 8 };

/* Habits and mistakes: words of the command line, and values of --habit and --mistake; all that there are, with blanks
 * around each. */
static const char *given_names[MOST_NAMES], *known_names;

static inline bool
is(const char *name)
{
    for (const char *given : given_names)
        if (given != NULL && strcmp(given, name) == 0)
            return true;
    return false;
}

/* Names that are joined by +. */
static inline void
names_add(void *, const char *text)
{
    static int count;
    for (char *one = strtok(strdup(text), "+"); one != NULL; one = strtok(NULL, "+")) {
        const std::string blanks = std::string(" ") + one + " ";
        if (strstr(known_names, blanks.c_str()) == NULL || count == MOST_NAMES) {
            fprintf(stderr, "%s: unknown, or one too many; names:%s\n", one, known_names);
            exit(2);
        }
        given_names[count++] = one;
    }
}

static inline bool
names_take_word(const char *word)
{
    if (word[0] == '-')
        return false;
    names_add(NULL, word);
    return true;
}

/* Takes the command line: options of the table, and names, of which `known` has all. */
static inline void
options_take(int argc, char **argv, std::vector<option_row> table, const char *known)
{
    known_names = known;
    for (const char *option : {"--habit", "--mistake"}) {
        table.push_back({option, &known_names});
        table.back().read = names_add;
    }
    take_options(argc, argv, 1, table, names_take_word);
}

/* The same of a program that has names only. */
static inline void
names_take(int argc, char **argv, const char *known)
{
    options_take(argc, argv, {}, known);
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

static inline void *
pinned_memory(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocHost(&memory, bytes));
    memset(memory, 0, bytes);
    return memory;
}

/* Memory of the device with random numbers of this spread around zero; with zeros if it is 0, which draws none. */
static inline float *
floats(int count, float spread)
{
    if (spread > 0)
        return device_drawn(count, spread);
    const std::vector<float> zeros((size_t)count);
    return device_copy(zeros.data(), zeros.size());
}

#endif

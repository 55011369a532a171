/*
 * trainer_modes.h - a trainer of several modes, of which the command line names one. C++, for the trainers of all
 * tests; includes nothing of the product.
 */
#ifndef DDPRUN_TESTS_TRAINER_MODES_H
#define DDPRUN_TESTS_TRAINER_MODES_H

#include <initializer_list>
#include <string.h>
#include <vector>

/* The first argument, or what the trainer does without one. */
static const char *mode __attribute__((unused));

static inline bool
is_mode(const char *name)
{
    return strcmp(mode, name) == 0;
}

/* Whether the mode is one of these words. */
static inline bool
is_one_of(std::initializer_list<const char *> names)
{
    bool found = false;
    for (const char *name : names)
        found = found || is_mode(name);
    return found;
}

/* MODE(name, function, parameters...) { ... } is what the trainer does in this mode:
 * mode_of<void(parameters...)>::given(). */
template <typename F> struct mode_of {
    const char *name;
    F *run;

    mode_of(const char *name, F *run) : name(name), run(run)
    {
        all().push_back(*this);
    }

    static std::vector<mode_of> &all(void)
    {
        static std::vector<mode_of> modes;
        return modes;
    }

    /* NULL if there is no such mode. */
    static F *given(void)
    {
        F *found = NULL;
        for (const mode_of &one : all())
            found = is_mode(one.name) ? one.run : found;
        return found;
    }
};

#define MODE(name, function, ...)                                            \
    static void function(__VA_ARGS__);                                       \
    static const mode_of<void(__VA_ARGS__)> function##_mode(name, function); \
    static void function(__VA_ARGS__)

static inline bool
begins_with(const char *part)
{
    return strncmp(mode, part, strlen(part)) == 0;
}

#endif

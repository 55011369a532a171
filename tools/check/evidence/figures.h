/*
 * figures.h - figures that a program prints: do N ranks print what one process prints? Pure.
 *
 * A figure is a number with a decimal point, and has a name: the words in front of it in its line. Two figures are the
 * same one if their lines are the same but for numbers, stand in the same place among such lines, and have the same
 * first whole number (a step, say).
 *
 * Rules under which a difference is no evidence, because something else explains it:
 * - two runs of one process print the name with different values anywhere, as they do times;
 * - a word of the name or of the unit is one of time, speed, memory or the machine ("took 0.5 s", "3.1 GB");
 * - the ranks print different values: the value is of each rank's own share;
 * - rank 0's value is N times that of one process, or the Nth part, as counts of a share are;
 * - the difference is at most 16 times what one unit in the last place of the parameters makes of the figures of that
 *   name, and 0.001 of the value, and two units of the last digit that is printed;
 * - fewer than half of the values of that name differ so; of a single value: it differs by less than 0.03.
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_FIGURES_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_FIGURES_H

#include <stdbool.h>

/* What the program has printed on stdout in each run; texts are borrowed. */
struct figures_runs {
    const char *one, *again;  /* one process, and once more */
    const char *perturbed;    /* its parameters began one unit in the last place away */
    const char *const *ranks; /* [count] */
    int count;
};

struct figure_difference {
    char name[64];             /* the words in front of it */
    char one[32], ranked[32];  /* as they are printed: by one process, and by rank 0 */
    char line[160];            /* of one process, without its end */
    bool is_alone;             /* rank 0 alone prints it */
    unsigned differing, count; /* how many values of that name differ, of how many that were compared */
};

/* The first name whose values differ, in the order of the output of one process. False: there is none. */
bool figures_compare(const struct figures_runs *runs, struct figure_difference *difference);

#endif

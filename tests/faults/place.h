/*
 * place.h - where runs take place: on one node under ddprun's own server, under mpirun, or under mpirun on simulated
 * hosts.
 */
#ifndef DDPRUN_TESTS_FAULTS_PLACE_H
#define DDPRUN_TESTS_FAULTS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What a kind of fault is for; bits. */
enum { ON_NODE = 1, UNDER_MPIRUN = 2, ON_HOSTS = 4, ANYWHERE = 7 };

enum { PLACE_HOSTS_AT_MOST = 4 };

/* A simulated host: a process that lives in it, and its TMPDIR. */
struct place_host {
    pid_t keeper;
    const char *tmp;
};

struct place {
    unsigned where;     /* one of the bits */
    const char *prefix; /* words before ddprun, with %d for the number of ranks; NULL: it is started by itself */
    int ranks;          /* 0: any number */
    struct place_host hosts[PLACE_HOSTS_AT_MOST];
    int host_count;
    const char *cut, *restore; /* commands that cut the link between the hosts and restore it; or NULL */
    bool by_state;             /* the plan is */
    const char *plan;          /* for `ddprun --plan`: ranks take turns; NULL: the trainer's annotations count */
    bool by_regions;           /* ranks take turns by annotations (DDP_TURN_BEGIN) */
};

/* Whether each rank computes whole batches. */
static inline bool
place_takes_turns(const struct place *place)
{
    return place->plan != NULL || place->by_regions;
}

#endif

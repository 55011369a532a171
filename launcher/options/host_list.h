/*
 * host_list.h - lists of hosts as people write them: `--hosts h1:8,h2:8`, or a file with one host a line.
 *
 * Used by --hosts (hosts.c) and, for their syntax, by the fuzzer. Whether such a host exists is asked by the launcher
 * that reaches it.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_HOST_LIST_H
#define DDPRUN_LAUNCHER_OPTIONS_HOST_LIST_H

#include "launcher/common/error.h"

#include <stddef.h>

enum {
    HOST_LIST_MOST_HOSTS = 4096,
    HOST_LIST_MOST_RANKS = 256, /* on one host */
    HOST_LIST_LONGEST_NAME = 253,
};

struct host {
    char *name;
    int ranks; /* from 1 */
};

/* Owned by the caller; release with host_list_free(). */
struct host_list {
    struct host *hosts;
    int count;
    int ranks; /* of all hosts */
};

/*
 * Parses `length` bytes, which need not end with a NUL: HOST:RANKS, with commas in between if `file` is NULL; otherwise
 * `file` is the name for messages and each line is empty, a comment (#), HOST:RANKS, or `HOST slots=RANKS` as in the
 * host files of Open MPI. Error (DDPRUN_EXIT_USAGE): anything else, a host without a number or named twice, no host.
 */
bool host_list_parse(const char *bytes, size_t length, const char *file, struct host_list *list,
                     struct error *error) MUST_USE;

/* The value of --hosts: a list, or "file=PATH". Error too if the file cannot be read. */
bool host_list_take(const char *value, struct host_list *list, struct error *error) MUST_USE;

void host_list_free(struct host_list *list);

#endif

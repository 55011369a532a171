/*
 * gpu_list.h - lists of GPUs as people write them: `--gpus 0,2,5-7` or `--gpus GPU-8e2d...,MIG-4f1a...`.
 *
 * Used by the options and by the placement of ranks. Syntax only: whether such a GPU exists is asked in devices.c.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_GPU_LIST_H
#define DDPRUN_LAUNCHER_OPTIONS_GPU_LIST_H

#include "launcher/common/error.h"

/* Owned by the caller; release with gpu_list_free(). */
struct gpu_list {
    char **names; /* each a decimal index without leading zeros, or a UUID, as CUDA_VISIBLE_DEVICES takes them */
    int count;
};

/* Parses `text`; indices up to 1023. Error (DDPRUN_EXIT_USAGE): empty, an item that has none of the
 * forms, an item named twice. */
bool gpu_list_parse(const char *text, struct gpu_list *list, struct error *error) __attribute__((warn_unused_result));

/* Appends a copy of `name`. */
void gpu_list_add(struct gpu_list *list, const char *name);

/* The same for a GPU that --gpus names. Error (DDPRUN_EXIT_USAGE): it is in the list already. */
bool gpu_list_add_once(struct gpu_list *list, const char *name, struct error *error)
    __attribute__((warn_unused_result));

void gpu_list_free(struct gpu_list *list);

/* The number that `name` is as an index, -1 if it is not an index (a UUID, -1, anything else). */
int gpu_list_index(const char *name);

#endif

/*
 * work.h - what a call of a non-blocking communicator leaves to a thread of its own, one for each call or group, as
 * NCCL does. The communicators of the call share it; each releases it when the program asks for its state.
 */
#ifndef SOFTGPU_NCCL_WORK_H
#define SOFTGPU_NCCL_WORK_H

#include <nccl.h>
#include <stdbool.h>

struct work;

typedef ncclResult_t (*work_function)(void *argument);

/* Runs it in a thread that no signal of the program is delivered to; `users` will release it. NULL: out of threads. */
struct work *work_start(work_function function, void *argument, int users);

bool work_is_done(struct work *work);

/* Waits until it is done, and returns its result; the last user ends the thread and frees it. */
ncclResult_t work_release(struct work *work);

#endif

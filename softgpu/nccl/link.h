/*
 * link.h - SOFTGPU_LINK, the model of a slower link: "latency_us=20,gbytes_per_s=10".
 *
 * With it, an operation on n bytes takes at least latency + n / bandwidth from the moment at which all ranks have come
 * to it, by sleeping. n is the size of the larger of its two buffers; of the operations of one group only the first one
 * pays the latency, and a communicator of one rank has no link. Connecting takes one more latency, on the host. Called
 * by comm.c at initialisation, by connect.c and by collective.c. Pure.
 *
 * With busy_factor=2, too, the time of a collective goes by half as fast while a kernel or a host function of another
 * stream runs in the process, as on a GPU, where they share multiprocessors. With slows=1.2 such work takes 1.2 times
 * as long while the time of a collective passes.
 */
#ifndef SOFTGPU_NCCL_LINK_H
#define SOFTGPU_NCCL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_VARIABLE "SOFTGPU_LINK"

struct link_model {
    double latency_us;
    double gbytes_per_s; /* 10^9 bytes; infinite where not given */
    double busy_factor;  /* from 1 to 1000; 1 where not given */
    double slows;        /* the same */
};

/* Reads the value of the variable; NULL or "" is no model: nothing takes time. False: malformed, *model_p is untouched.
 */
bool link_model_parse(const char *value, struct link_model *model_p);

/* How long an operation on `bytes` takes at least. */
int64_t link_model_ns(const struct link_model *model, size_t bytes, bool pays_latency);

#endif

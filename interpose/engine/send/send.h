/*
 * send.h - buckets on their way.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H
#define DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H

#include "interpose/engine/memory/memory.h"

/* ---- bucket_launch.c ---- */
void issue_ready(void);
/* The issuer: sends one bucket. */
void issue_bucket(struct group *group, size_t bucket, bool early) BY_ISSUER;
/* The issuer: prepares wires and events for the plan in force, releasing those of the last. */
void issue_prepare_plan(struct group *group) BY_ISSUER;
/*
 * The issuer, collective: wires for other plans of the group's gradients, besides those of the plan in force; of each
 * of others[0..count), count <= OTHERS_AT_MOST, `plan` is set and all else zero. They share one piece of memory, which
 * others[0] has. False, and nothing is kept: a rank has too little memory to spare.
 */
enum { OTHERS_AT_MOST = 4 };
bool issue_prepare_others(struct group *group, struct shipment *others, size_t count) BY_ISSUER;
/* The issuer: gives all of that back, but for the plans. */
void issue_free_others(struct shipment *others, size_t count) BY_ISSUER;
/* Collective, the issuer, while no step has other plans: gives back the memory that NCCL knows, of all groups, and
 * takes such memory again. No bucket is sent in between. */
void issue_unstage(void) BY_ISSUER;
void issue_stage(void) BY_ISSUER;
/* The issuer: prepares the shipment of a step in a capture, whose plan is set; `places` are the group's. Enqueues on no
 * captured stream. */
void issue_prepare_captured(struct shipment *shipment, const size_t *places) BY_ISSUER;

/* Free memory of the device, in bytes, and all of it; both 0: unknown. */
uint64_t memory_free(uint64_t *all_bytes_p);
/* Whether so many bytes of device memory for a while leave the program an eighth of the device's, for what it may
 * allocate meanwhile. */
bool memory_is_spare(uint64_t bytes);

#endif

/*
 * send.h - buckets on their way.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H
#define DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H

#include "interpose/engine/memory/memory.h"

/* ---- bucket_launch.c ---- */
void issue_ready(void);
/* The issuer: sends one bucket. */
void issue_bucket(struct group *group, size_t bucket, bool early) BY_ISSUER WITHOUT_LOCK;
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
/* The issuer: prepares the shipment of a step in a capture, whose plan is set; `places` are the group's. Enqueues on no
 * captured stream. */
void issue_prepare_captured(struct shipment *shipment, const size_t *places) BY_ISSUER;

#endif

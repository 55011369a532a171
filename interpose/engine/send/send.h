/*
 * send.h - buckets on their way. It is the issuer's, at launches and boundaries, but for what says "any thread".
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H
#define DDPRUN_INTERPOSE_ENGINE_SEND_SEND_H

#include "interpose/engine/memory/memory.h"

/* ---- bucket_launch.c: which bucket, and when ---- */
/* Collective: prepares for the plan in force, releasing what the last one had. */
void launch_prepare_plan(struct group *group) BY_ISSUER;
/* Wires for other plans of the group's gradients, besides those of the plan in force, whose memory for packed buckets
 * they share; of each of others[0..count), count <= OTHERS_AT_MOST, `plan` is set and all else zero. */
enum { OTHERS_AT_MOST = 4 };
void launch_prepare_others(struct group *group, struct shipment *others, size_t count) BY_ISSUER;
/* Any thread: buckets that are ready are launched, if no other thread has the issuer's role. */
void launch_ready(void);
/* One bucket; `early`: before its boundary. */
void launch_bucket(struct group *group, size_t bucket, bool early) BY_ISSUER WITHOUT_LOCK;
/* All that are left, when the engine's stream waits for all work on the group's gradients. When it returns, averages
 * will be in the gradients in the order of that stream. `producers`: the streams with such work. Waits for all ranks,
 * where buckets may have been launched before. */
void launch_at_boundary(struct group *group, uint64_t producers) BY_ISSUER WITHOUT_LOCK;

/* Waits until no gradient is read or written any more by what was launched so far: their memory may go. */
void launch_wait_unused(void) WITHOUT_LOCK;
/* With lock held, which it gives back meanwhile: the bucket is launched before its boundary. */
void launch_early(struct group *group, size_t bucket) ISSUER_WITH_LOCK;

/* ---- serve.c: other ranks may wait for this one's buckets ---- */
/* All buckets of the group that may be launched before its boundary, or SEQUENCE_NONE; where ranks do so at the same
 * place, the order of collectives is the same on all of them from there on. */
void launch_rest(int group) BY_ISSUER WITHOUT_LOCK;
/* All ranks, at the end of the program: the rest of a step of which some have launched buckets, so that none waits. */
void launch_rest_at_end(void) WITHOUT_LOCK;
/* Collective: what was launched of steps that are not over is taken back, on all ranks: gradients were not changed. */
void launch_take_back(const char *about) BY_ISSUER WITHOUT_LOCK;
/* The next two in any thread. */
/* This thread is about to wait for the whole device. */
void serve_before_wait(void) WITHOUT_LOCK;
/* It waits for a message, and has done so for a while. */
void serve_request(void) WITHOUT_LOCK;

/* ---- wires.c: where buckets are in memory ---- */
/* As launch_prepare_plan() and launch_prepare_others(). */
void wires_prepare_plan(struct group *group) BY_ISSUER;
void wires_prepare_others(struct group *group, struct shipment *others, size_t count) BY_ISSUER;
/* Tells the interval's readiness which buckets of the plan in force are launched at boundaries only. */
void wires_mark_last(struct group *group) BY_ISSUER;
/* Gives back what launch_prepare_others() has made, but for the plans. */
void wires_free_others(struct shipment *others, size_t count) BY_ISSUER;
/* The shipment of a step in a capture, whose plan is set; `places` are the group's. Enqueues on no captured stream. */
void wires_prepare_captured(struct shipment *shipment, const size_t *places) BY_ISSUER;
/* The wire gets the bucket's members as they are now: gradients may have been allocated elsewhere since it was last
 * sent, or not at all until now. Ends the job if one has no memory. Whether anything has changed. */
bool wires_follow(const struct shipment *shipment, const size_t *places, size_t bucket,
                  struct bucket_wire *wire) BY_ISSUER;
/* Whether the wire has them. */
bool wires_stand(const struct shipment *shipment, const size_t *places, size_t bucket,
                 const struct bucket_wire *wire) BY_ISSUER;
/* Whether all of the bucket's gradients have memory now. */
bool wires_have_memory(const struct shipment *shipment, const size_t *places, size_t bucket) BY_ISSUER;
/* The wire has members, of the right sizes, wherever; none is looked at. */
void wires_ensure_placed(const struct shipment *shipment, const size_t *places, size_t bucket,
                         struct bucket_wire *wire) BY_ISSUER;

/* ---- speculation.c: buckets that are reduced before their gradients are known to be complete ---- */
/* Room for plans of so many buckets. */
void speculation_make_room(size_t bucket_count) BY_ISSUER;
/* Packs the bucket, with this rank's gradients times `factor`, and enqueues its reduction. */
void speculation_launch(const struct group *group, size_t bucket, double factor, bool early) BY_ISSUER;
/* Whether all buckets that were launched before the boundary are reduced. */
bool speculation_has_come(void);
/* Waits until all of them are packed: no memory of gradients is read any more. */
void speculation_wait_packed(void);
/* Takes part in the reduction of the bucket, whose result no rank will use. */
void speculation_discard(const struct group *group, size_t bucket) BY_ISSUER;
/* Nothing of the group was launched in this interval. */
void speculation_take_back(const struct group *group) BY_ISSUER;
/* At a boundary: finds out which early buckets are stale, once the streams `producers` have come there. */
void speculation_compare(const struct group *group, uint64_t producers, double factor) BY_ISSUER;
/* After the last bucket is launched: all ranks are told, and tell. */
void speculation_tell(const struct group *group) BY_ISSUER;
/* Waits for what they tell; what is stale is sent once more, and averages are written into the gradients. By --commit
 * trust the device finds out whether they are, and nothing waits. */
void speculation_settle(struct group *group, double factor) BY_ISSUER;

/* Waits for the verdict of the last step, if averages were committed before it was known; ends the job if it is not
 * clean. Any thread, before a result of the device may leave it; */
void speculation_await_verdict(void) WITHOUT_LOCK;
/* the issuer, who is about to pack a bucket, or to give up memory of buckets. */
void speculation_await_verdict_launching(void) BY_ISSUER WITHOUT_LOCK;

/* ---- trust.c: averages that are committed before the host knows that they are right; for speculation.c ---- */
/* What all ranks say of a step's buckets. */
struct verdict {
    uint64_t step; /* its number, from 1 */
    int group;
    CUevent come;          /* `heard` is there */
    const uint32_t *heard; /* [bucket_count + 1]: of each bucket, on how many ranks it is stale; then: */
    size_t bucket_count;
    uint32_t known; /* the sum of a word that all ranks know */
};
enum verdict_kind { VERDICT_CLEAN, VERDICT_STALE, VERDICT_DAMAGED };
/* Any thread, when it has come. */
enum verdict_kind trust_judge(const struct verdict *verdict);
/* Steps in a row without a repair after which averages are trusted: as many as a gradient is judged by. */
enum { TRUST_AFTER = 64 };
/* Whether this boundary's are. */
bool trust_holds(const struct group *group) BY_ISSUER;
/* The host has waited for a verdict: so many buckets were stale. */
void trust_note(const struct group *group, size_t stale) BY_ISSUER;
/* Any thread: another process may look at this one's memory from now on, so nothing is trusted any more. */
void trust_share(void);
/* The host goes on before it knows this verdict. */
void trust_await(const struct verdict *verdict) BY_ISSUER;
/* Any thread: whether a verdict is not known yet. */
bool trust_is_awaited(void);
/* Any thread: waits for that. False: it is *verdict_p, and not clean; no thread gets another answer. */
bool trust_settle(struct verdict *verdict_p) WITHOUT_LOCK;

#endif

/*
 * play_json.h - how ranks take turns (tools/plan/format/play.h), as a part of a plan of `ddprun scout --json`.
 * docs/scout.md has its schema.
 */
#ifndef DDPRUN_TOOLS_PLAN_FORMAT_PLAY_JSON_H
#define DDPRUN_TOOLS_PLAN_FORMAT_PLAY_JSON_H

#include "tools/plan/format/play.h"

#include <json-c/json.h>

/* A new object: all of `play` that does not belong to one run. json_object_put() releases it. */
struct json_object *play_json_of(const struct play *play);

/* The reverse; play_free() releases it, whatever was returned. False with the reason in `why`, PLAY_WHY_BYTES:
 * something is missing, or has no possible value. */
bool play_json_read(struct json_object *from, struct play *play, char *why) __attribute__((warn_unused_result));

/* The member "forecast" of a plan: what proof (d) took. Zeros: it was not timed. */
void play_json_put_times(struct json_object *plan, const struct play_times *times);
struct play_times play_json_times(struct json_object *plan);

/* Puts the hash of all that ranks follow, which is "turns", of ddprun's version and of the ends of the proofs that let
 * a plan train into a plan of `ddprun scout --json`: when any has changed. Nothing else counts, as the forecast. */
void play_json_seal(struct json_object *plan);
/* NULL: `turns` has this version, and that of ddprun, and the plan the hash of what it holds. Else what is wrong:
 * static storage. */
const char *play_json_damage(struct json_object *plan) __attribute__((warn_unused_result));

/* ---- members of an object of JSON ---- */

/* "" and 0: there is none. */
const char *play_text(struct json_object *from, const char *key);
uint64_t play_number(struct json_object *from, const char *key);
/* Of a list; of anything else 0. */
size_t play_length(struct json_object *list);

void play_put_text(struct json_object *to, const char *key, const char *text); /* NULL: null */
void play_put_number(struct json_object *to, const char *key, uint64_t number);
/* A new list as a member of an object, a new object at the end of a list; both belong to what they are put into. */
struct json_object *play_put_list(struct json_object *to, const char *key);
struct json_object *play_put_item(struct json_object *list);

#endif

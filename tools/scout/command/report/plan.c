/* plan.c - see proofs.h. */
#include "tools/scout/command/report/proofs.h"

#include "base/protocol.h"
#include "launcher/output/whole_file.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/report/lines.h"

#include <errno.h>
#include <json-c/json.h>

/* Adds to the plan which program it is of: its arguments, and its objects with their build ids. */
static void
put_program(struct json_object *plan, const struct scout_log *log, char *const *words)
{
    struct json_object *program = json_object_new_object();
    json_object_object_add(plan, "program", program);
    struct json_object *arguments = play_put_list(program, "arguments");
    for (; *words != NULL; ++words)
        json_object_array_add(arguments, json_object_new_string(*words));
    play_put_text(program, "ddprun", DDPRUN_VERSION);
    struct json_object *objects = play_put_list(program, "objects");
    for (uint32_t i = 0; i < log->object_count; ++i) {
        struct json_object *item = play_put_item(objects);
        play_put_text(item, "path", log->objects[i].path);
        play_put_text(item, "build_id", log->objects[i].build_id);
    }
}

/* Where in the source; nothing if that is not known. */
static void
put_source(struct json_object *to, const char *key, struct sites *sites, uint32_t site)
{
    char text[512];
    struct site_place place;
    uint32_t count;
    (void)sites_frames(sites, site, &count); /* a launch that was inlined has its line in a header, too */
    if (count > 0 || sites_find(sites, site, &place))
        play_put_text(to, key, sites_text(sites, site, text, sizeof(text)));
}

/* Where the program calls each operation that players count: copies to the host alone, which previews name. */
static void
put_reads(struct json_object *period, const struct scout_log *log, const struct scout_finding *finding,
          struct sites *sites)
{
    struct json_object *list = play_put_list(period, "reads");
    for (uint32_t i = finding->first; i < finding->first + finding->period; ++i) {
        const struct scout_op *op = &log->ops[i];
        struct json_object *item = op->ahead == 0 ? play_put_item(list) : NULL;
        if (item != NULL && op->kind == SCOUT_COPY && op->to.alloc == SCOUT_NONE)
            put_source(item, "at", sites, op->site);
    }
}

/* Adds all allocations of the log, by number; made_at and freed_at count operations of the log. */
static void
put_allocations(struct json_object *plan, const struct scout_log *log, struct sites *sites)
{
    struct json_object *list = play_put_list(plan, "allocations");
    FOR_EACH(alloc, log->allocs, log->alloc_count) {
        struct json_object *item = play_put_item(list);
        play_put_number(item, "bytes", alloc->bytes);
        play_put_number(item, "ordinal", alloc->ordinal);
        play_put_number(item, "made_at", alloc->made_at);
        if (alloc->freed_at != UINT64_MAX)
            play_put_number(item, "freed_at", alloc->freed_at);
        if (alloc->memory == SCOUT_MANAGED)
            json_object_object_add(item, "managed", json_object_new_boolean(true));
        put_source(item, "allocated_at", sites, alloc->site);
    }
}

/* Adds the tensors that were found; begin and end are bytes of their allocation, last_writer an operation of the
 * period. */
static void
put_tensors(struct json_object *plan, const struct scout_log *log, const struct scout_finding *finding,
            struct sites *sites)
{
    struct json_object *list = play_put_list(plan, "tensors");
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        struct json_object *item = play_put_item(list);
        play_put_text(item, "role", scout_role_name(tensor->role));
        play_put_text(item, "type", scout_type_name(tensor->type));
        if (tensor->guessed)
            json_object_object_add(item, "guessed", json_object_new_boolean(true));
        play_put_number(item, "allocation", tensor->alloc);
        play_put_number(item, "begin", tensor->lo);
        play_put_number(item, "end", tensor->hi);
        put_source(item, "allocated_at", sites, log->allocs[tensor->alloc].site);
        play_put_number(item, "last_writer", tensor->writer - finding->first);
        if (tensor->pair != PAIR_NONE)
            play_put_number(item, "pair", tensor->pair);
        if (tensor->group != GROUP_NONE)
            play_put_number(item, "group", tensor->group);
        if (tensor->fused)
            json_object_object_add(item, "fused", json_object_new_boolean(true));
    }
}

/* Adds the groups of gradients; operations count from the beginning of the period. */
static void
put_groups(struct json_object *plan, const struct scout_log *log, const struct scout_finding *finding,
           struct sites *sites)
{
    struct json_object *list = play_put_list(plan, "groups");
    char text[SCOUT_NAME_BYTES];
    FOR_EACH(group, finding->groups, finding->group_count) {
        struct json_object *item = play_put_item(list);
        play_put_number(item, "gradients", group->gradients);
        play_put_number(item, "parameters", group->parameters);
        play_put_number(item, "complete_after", group->complete - finding->first);
        play_put_number(item, "reduce_before", group->before - finding->first);
        play_put_text(item, "name", scout_log_name(log, log->ops[group->before].name));
        play_put_text(item, "text", scout_op_name(log, &log->ops[group->before], text));
        put_source(item, "at", sites, log->ops[group->before].site);
        json_object_object_add(item, "fused", json_object_new_boolean(group->fused));
    }
}

/* Adds how a proof ended, under `key`; nothing if it was not asked for. */
static void
put_proof(struct json_object *to, const char *key, const struct proof *proof)
{
    if (proof->end == PROOF_NOT_ASKED)
        return;
    struct json_object *item = json_object_new_object();
    json_object_object_add(to, key, item);
    play_put_text(item, "end", proof_end_name(proof->end));
    play_put_text(item, "text", proof->text);
}

/* Adds all of a finding that has roles: period, memory, notes, proofs, and what ranks play. */
static void
put_found(struct json_object *plan, const struct scout_log *log, const struct scout_finding *finding,
          const struct scout_proofs *proofs, struct sites *sites)
{
    struct json_object *period = json_object_new_object();
    json_object_object_add(plan, "period", period);
    play_put_number(period, "first", finding->first);
    play_put_number(period, "operations", finding->period);
    put_reads(period, log, finding, sites);
    if (finding->varying_reads != NULL)
        play_put_text(period, "varying_reads", finding->varying_reads);
    put_allocations(plan, log, sites);
    if (!proofs->by_state) {
        put_tensors(plan, log, finding, sites);
        put_groups(plan, log, finding, sites);
    }
    struct json_object *notes = play_put_list(plan, "notes");
    for (uint32_t i = 0; i < finding->note_count; ++i)
        json_object_array_add(notes, json_object_new_string(finding->notes[i]));
    struct json_object *proof = json_object_new_object();
    json_object_object_add(plan, "proof", proof);
    if (!proofs->by_state)
        play_put_text(proof, "gradients_cut", "passed");
    put_proof(proof, "halves", &proofs->halves);
    put_proof(proof, "complete", &proofs->complete);
    put_proof(proof, "turns", &proofs->turns);
    put_proof(proof, "per_rank", &proofs->own);
    if (proofs->times.round_ns > 0)
        play_json_put_times(plan, &proofs->times);
    if (proofs->played != NULL) {
        json_object_object_add(plan, "turns", json_object_get(proofs->played));
        play_json_seal(plan);
    }
}

/* Adds the files that the program has opened. */
static void
put_files(struct json_object *plan, const struct scout_log *log)
{
    struct json_object *files = play_put_list(plan, "files");
    for (uint32_t i = 0; i < log->file_count; ++i) {
        struct json_object *item = play_put_item(files);
        play_put_text(item, "path", log->files[i].path);
        play_put_number(item, "bytes", log->files[i].bytes);
        json_object_object_add(item, "writes", json_object_new_boolean(log->files[i].writes != 0));
    }
}

/* free() releases it. */
static char *
plan_text(char *const *words, const struct scout_log *log, const struct scout_finding *finding,
          const struct scout_proofs *proofs)
{
    struct json_object *plan = json_object_new_object();
    struct sites *sites = sites_open(log);
    play_put_number(plan, "version", SCOUT_PLAN_VERSION);
    json_object_object_add(plan, "found", json_object_new_boolean(finding->found));
    play_put_text(plan, "reason", finding->reason);
    if (finding->instead_of[0] != '\0')
        play_put_text(plan, "by_state_for", finding->instead_of);
    put_program(plan, log, words);
    if (finding->found || finding->is_open)
        put_found(plan, log, finding, proofs, sites);
    put_files(plan, log);
    sites_close(sites);
    char *text = xasprintf(
        "%s\n", json_object_to_json_string_ext(plan, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(plan);
    return text;
}

bool
plan_write(const char *path, char *const *words, const struct scout_log *log, const struct scout_finding *finding,
           const struct scout_proofs *proofs, struct error *error)
{
    OWNED char *text = plan_text(words, log, finding, proofs);
    mode_t old = umask(077);
    bool written = whole_file_write(path, text, strlen(text));
    int cause = errno;
    umask(old);
    return written || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s (--json): %s", path, file_why(cause));
}

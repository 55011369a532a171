/*
 * fuzz_plan.c - two targets: a plan of `ddprun scout`, which may be a file of any origin (--plan), and the run file
 * that is made of it for the ranks.
 *
 * Required: a plan is refused in one line, or makes a run file that ranks can load; and what is loaded of such a
 * one has its numbers within their bounds and its texts ended, and says the same once it was a plan again.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/plan/command/auto.h"
#include "tools/plan/format/play_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
put_file(char path[128], const char *name, const uint8_t *bytes, size_t count)
{
    snprintf(path, 128, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "we");
    fuzz_require(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, "a file can be made");
}

static void
require_sound(const struct play *play)
{
    const struct play_plan *plan = &play->plan;
    fuzz_require(plan->version == PLAY_VERSION && plan->data <= PLAY_TRAINING &&
                     plan->average_before <= plan->operation_count,
                 "a run file has a version, a kind and a place for averages");
    for (uint32_t i = 0; i < plan->tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        fuzz_require(tensor->lo <= tensor->hi && tensor->hi <= tensor->bytes, "a tensor lies in its allocation");
        fuzz_require(tensor->role >= PLAY_PARAMETER && tensor->role <= PLAY_LAST, "a tensor has a role");
    }
    for (uint32_t i = 0; i < plan->operation_count; ++i) {
        const struct play_operation *operation = &play->operations[i];
        fuzz_require(strnlen(operation->name, sizeof(operation->name)) < sizeof(operation->name), "a name ends");
        fuzz_require(operation->site_count <= PLAY_SITES && operation->part <= PLAY_BY_LAST, "a call has its sites");
        for (uint32_t k = 0; k < operation->site_count; ++k)
            fuzz_require(operation->sites[k].frame_count <= PLAY_FRAMES, "a site has its frames");
    }
    for (uint32_t i = 0; i < plan->object_count; ++i)
        fuzz_require(strnlen(play->objects[i].path, PATH_MAX) < PATH_MAX &&
                         strnlen(play->objects[i].build_id, PLAY_BUILD_ID_BYTES) < PLAY_BUILD_ID_BYTES,
                     "an object has a path");
}

static void
require_same(const struct play *play)
{
    struct play again;
    char why[PLAY_WHY_BYTES] = "";
    struct json_object *json = play_json_of(play);
    fuzz_require(play_json_read(json, &again, why), "what was read of a plan is a plan");
    fuzz_require(again.plan.operation_count == play->plan.operation_count &&
                     again.plan.tensor_count == play->plan.tensor_count && again.plan.by == play->plan.by &&
                     again.plan.average_before == play->plan.average_before &&
                     (play->plan.tensor_count == 0 || again.tensors[0].hi == play->tensors[0].hi),
                 "a plan says the same again");
    fuzz_require(again.plan.state_before == play->plan.state_before, "and puts state back in the same place");
    play_free(&again);
    json_object_put(json);
}

/* The first byte says whether plans are taken that are not proved. */
void
fuzz_plan(const uint8_t *bytes, size_t count)
{
    char path[128], to[128];
    struct error error = {0};
    struct play play;
    if (count == 0)
        return;
    put_file(path, "plan", bytes + 1, count - 1);
    put_file(to, "run", bytes, 0);
    if (plan_file_prepare(path, path, (bytes[0] & 1) != 0, false, to, &error)) {
        fuzz_require(play_load(to, &play), "ranks can load what was made of a plan");
        require_sound(&play);
        require_same(&play);
        play_free(&play);
    } else {
        fuzz_require_error(&error, 2);
        fuzz_require(strchr(error.text, '\n') == NULL, "a plan is refused in one line");
    }
    unlink(path);
    unlink(to);
}

void
fuzz_play(const uint8_t *bytes, size_t count)
{
    char path[128];
    struct play play;
    put_file(path, "run", bytes, count);
    if (play_load(path, &play)) {
        play_free(&play);
    } else {
        fuzz_require(errno == EINVAL, "a damaged run file is called so");
    }
    unlink(path);
}

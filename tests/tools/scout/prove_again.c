/*
 * prove_again.c - prove_again DDPRUN PLAN PROGRAM...: the proofs of a kept plan, made again; prints how they ended, and
 * the sentence. The runs are DDPRUN's, in whose place this program stands.
 */
#include "launcher/start/job_folder.h"
#include "tools/common/inner_run.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/scout.h"

#include <json-c/json_util.h>

#define DDPRUN "TEST_PROVE_AGAIN_DDPRUN" /* environment: its path */

/* By state (complete), then (d), as of a plan that was just made. */
static bool
prove(const struct scout_order *order, struct json_object *turns, struct proof *proof, struct error *error)
{
    struct play play;
    struct play_times times;
    char why[PLAY_WHY_BYTES];
    bool can = play_json_read(turns, &play, why);
    struct trial trial = {.order = order, .play = &play, .proof = proof, .error = error};
    if (can && play.plan.by == PLAY_BY_STATE)
        proof_complete(&trial, false);
    if (can && (proof->end == PROOF_PASSED || play.plan.by != PLAY_BY_STATE))
        proof_play_turns(&trial, &times);
    if (!can)
        proof_conclude(proof, PROOF_IMPOSSIBLE, "%s", why);
    play_free(&play);
    return !trial.is_ended;
}

int
main(int argc, char **argv)
{
    static char name[] = "ddprun", device[] = "--device=softgpu", shared[] = "--share-gpu";
    struct options options;
    struct error error;
    struct job_folder folder;
    struct proof proof = {.end = PROOF_NOT_ASKED};
    if (strcmp(argv[0], name) == 0 && getenv(DDPRUN) != NULL) { /* a run */
        execv(getenv(DDPRUN), argv);
        return 127;
    }
    struct json_object *plan = argc > 3 ? json_object_from_file(argv[2]) : NULL;
    char *words[] = {name, device, shared, argc > 3 ? argv[3] : NULL, NULL};
    if (plan == NULL || setenv(DDPRUN, argv[1], 1) != 0 || options_parse(4, words, &options, &error) != OPTIONS_RUN ||
        !job_folder_make(&folder, &error))
        return 2;
    struct scout_order order = {
        .options = &options, .program = argv + 3, .folder = folder.path, .timeout_s = SCOUT_TIMEOUT_S, .silent = true};
    inner_run_block_signals(&order.old_mask);
    bool ok = prove(&order, json_object_object_get(plan, "turns"), &proof, &error);
    printf("%s: %s\n", ok ? proof_end_name(proof.end) : "error", ok ? proof.text : error.text);
    job_folder_remove(&folder);
    json_object_put(plan);
    return ok && proof.end == PROOF_PASSED ? 0 : 1;
}

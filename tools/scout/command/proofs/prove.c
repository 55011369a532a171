/*
 * prove.c - see prove.h: the proofs of a plan by state.
 */
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/proofs/played.h"

bool
scout_prove_by_state(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                     const struct by_state *by_state, bool prove, struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool can = play_plan_make_by_state(log, finding, by_state, &play, why), ok = true;
    if (can && prove)
        ok = proof_complete(order, &play, by_state, &proofs->complete, error);
    proofs->played = can ? play_json_of(&play) : json_object_new_object(); /* a proof has told sums from state */
    if (!can)
        json_object_object_add(proofs->played, "reason", json_object_new_string(why));
    if (ok && proofs->complete.end == PROOF_PASSED)
        ok = proof_play_turns(order, &play, &proofs->turns, error);
    play_free(&play);
    return ok;
}

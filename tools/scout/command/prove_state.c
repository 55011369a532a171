/*
 * prove_state.c - see prove.h.
 */
#include "tools/scout/command/prove.h"

#include "tools/plan/format/play_json.h"

bool
scout_prove_by_state(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                     const struct by_state *by_state, bool prove, struct scout_proofs *proofs, struct error *error)
{
    struct play play;
    char why[PLAY_WHY_BYTES];
    bool can = play_plan_make_by_state(log, finding, by_state, &play, why);
    (void)order;
    (void)prove;
    (void)error;
    proofs->played = can ? play_json_of(&play) : json_object_new_object();
    if (!can)
        json_object_object_add(proofs->played, "reason", json_object_new_string(why));
    play_plan_free(&play);
    return true;
}

/*
 * proofs.c - see proofs.h.
 */
#include "tools/scout/command/report/proofs.h"

const char *
proof_end_name(enum proof_end end)
{
    static const char *const names[] = {[PROOF_NOT_ASKED] = "not asked for",
                                        [PROOF_PASSED] = "passed",
                                        [PROOF_FAILED] = "failed",
                                        [PROOF_IMPOSSIBLE] = "not possible here"};
    return names[end];
}

const struct proof *
proofs_missing(const struct scout_proofs *proofs)
{
    const struct proof *all[] = {&proofs->halves, &proofs->turns, &proofs->complete};
    bool suffices = proofs->turns.end == PROOF_PASSED && !proofs->needs_halves && !proofs->by_state;
    if (proofs->own.end == PROOF_FAILED || proofs->own.end == PROOF_IMPOSSIBLE)
        return &proofs->own;
    for (int i = 0; i < 3; ++i)
        if (all[i]->end == PROOF_FAILED)
            return all[i];
    for (int i = 2; i >= 0; --i)
        if (all[i]->end == PROOF_IMPOSSIBLE && !suffices)
            return all[i];
    return NULL;
}

static void
print(FILE *out, const char *name, const struct proof *proof)
{
    if (proof->end != PROOF_NOT_ASKED)
        fprintf(out, "proof (%s): %s: %s\n", name, proof_end_name(proof->end), proof->text);
}

void
proofs_print(FILE *out, const struct scout_proofs *proofs)
{
    print(out, "c", &proofs->halves);
    print(out, "complete", &proofs->complete);
    print(out, "d", &proofs->turns);
    print(out, "per rank", &proofs->own);
}

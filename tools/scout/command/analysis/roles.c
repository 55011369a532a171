/* roles.c - see rules.h. The rules are in the files that rules.h lists. */
#include "tools/scout/command/analysis/rules.h"

#include "launcher/common/xcalloc.h"

#include <stdlib.h>

static enum roles_verdict
find_all(struct roles *roles, struct scout_finding *finding)
{
    sources_find(roles);
    sources_spread(roles, roles->tainted, roles->source, NULL);
    stays_find(roles, finding);
    stays_find_parameters(roles);
    enum roles_verdict verdict = refusals_judge_loops(roles, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    do {
        for (uint32_t i = 0; i < roles->graph->version_count; ++i)
            roles->inner[i] = elementwise_is_inner(roles, i);
        stays_find_leading(roles);
        elementwise_find_chain(roles);
    } while (gradients_find_vectors(roles) || gradients_find_kept_sums(roles));
    verdict = refusals_judge_loops(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = refusals_judge_unsure(roles, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    gradients_find(roles, finding);
    verdict = refusals_judge_fused(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = refusals_prove_cut(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = states_find(roles, finding);
    if (verdict == ROLES_FOUND) {
        refusals_note_host(roles, finding);
        refusals_note_unsure(roles, finding);
    }
    return verdict;
}

enum roles_verdict
roles_find(const struct graph *graph, uint32_t period, struct scout_finding *finding)
{
    struct roles roles = {.graph = graph, .period = period};
    bool **arrays[] = {&roles.source,    &roles.constant, &roles.tainted, &roles.past,  &roles.persistent,
                       &roles.parameter, &roles.carried,  &roles.leads,   &roles.inner, &roles.chain,
                       &roles.gradient,  &roles.between,  &roles.vector};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); ++i)
        *arrays[i] = xcalloc(graph->version_count + 1, sizeof(**arrays[i]));
    roles.scales = xcalloc(graph->version_count + 1, sizeof(*roles.scales));
    roles.kept = xcalloc(graph->version_count + 1, sizeof(*roles.kept));
    enum roles_verdict verdict = find_all(&roles, finding);
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); ++i)
        free(*arrays[i]);
    free(roles.scales);
    free(roles.kept);
    return verdict;
}

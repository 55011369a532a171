/* observed.c - see unannotated.h: what the runs of a check show by themselves. */
#include "tools/check/unannotated/unannotated.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"

/* One of them is said. */
static void
observe_after(const struct check_evidence *evidence, struct unannotated_findings *findings)
{
    EACH_ROW(after, &evidence->alone, CHECK_ROW_AFTER) {
        if (!check_is_in_place_of_parameter(&after->tensor) || !check_evidence_trains_after(after))
            continue;
        unannotated_add(findings, &(struct unannotated_finding){.kind = UNANNOTATED_AFTER,
                                                                .elements = after->tensor.count,
                                                                .argument = after->tensor.argument,
                                                                .text = xstrdup(after->tensor.text)});
        return;
    }
}

static uint64_t
count_elements(const struct check_facts *facts, uint32_t role)
{
    uint64_t elements = 0;
    FOR_EACH(item, facts->items, facts->item_count)
        elements += item->tensor.role == role ? item->tensor.count : 0;
    return elements;
}

/* A function may update momentum by the same argument as parameters. All of what it updates are parameters where no
 * more elements are updated so than gradients are annotated that have no parameter. */
static void
observe_parameters(const struct check_facts *facts, struct unannotated_findings *findings)
{
    uint64_t gradients = count_elements(facts, CHECK_GRADIENT), parameters = count_elements(facts, CHECK_PARAMETER);
    uint64_t updated = 0;
    FOR_EACH(item, facts->items, facts->item_count)
        updated += check_is_in_place_of_parameter(&item->tensor) ? item->tensor.count : 0;
    if (parameters + updated > gradients)
        return;
    FOR_EACH(item, facts->items, facts->item_count) {
        if (check_is_in_place_of_parameter(&item->tensor))
            unannotated_add(findings, &(struct unannotated_finding){.kind = UNANNOTATED_PARAMETER,
                                                                    .elements = item->tensor.count,
                                                                    .argument = item->tensor.argument,
                                                                    .text = xstrdup(item->tensor.text)});
    }
}

void
unannotated_observe(const struct check_evidence *evidence, const struct check_facts *facts,
                    struct unannotated_findings *findings)
{
    observe_after(evidence, findings);
    observe_parameters(facts, findings);
}

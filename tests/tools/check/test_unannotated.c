/*
 * test_unannotated.c - which memory without annotation is said to be a parameter, where ranks are equal, from the rows
 * of a check alone (tools/check/unannotated/observed.c).
 */
#include "tools/check/unannotated/unannotated.h"

#include "tests/lib/test.h"

enum { PARAMETERS = 20, GRADIENTS = 100, BOTH_LACK = 80, TENSORS_AT_MOST = 4 };

struct row {
    const char *why;
    uint32_t gradients, parameters;
    uint32_t in_place[2]; /* elements without annotation that a function updates as it updates parameters */
    uint32_t beside;      /* elements that it writes elsewhere, such as momentum */
    size_t found;
};

static const struct row rows[] = {
    {"a parameter lacks its annotation", GRADIENTS, PARAMETERS, {BOTH_LACK}, .found = 1},
    {"two lack it", GRADIENTS, PARAMETERS, {BOTH_LACK / 2, BOTH_LACK / 2}, .found = 2},
    {"its first element did not change", GRADIENTS, PARAMETERS, {BOTH_LACK - 1}, .found = 1},
    {"its momentum is updated beside it", GRADIENTS, PARAMETERS, {BOTH_LACK}, BOTH_LACK, 1},
    {"momentum is updated in the place of parameters, too", GRADIENTS, PARAMETERS, {BOTH_LACK, GRADIENTS}, .found = 0},
    {"each gradient has its parameter", GRADIENTS, GRADIENTS, {GRADIENTS}, .found = 0},
    {"momentum alone", GRADIENTS, PARAMETERS, {0}, BOTH_LACK, 0},
    {"nothing is annotated", 0, 0, {BOTH_LACK}, .found = 0},
};

static void
add_tensor(struct check_facts *facts, struct check_item *items, uint32_t role, uint32_t count, uint32_t group)
{
    if (count == 0)
        return;
    items[facts->item_count++] =
        (struct check_item){.tensor = {.role = role, .count = count, .group = group, .text = "sgd"}};
    facts->items = items;
}

static size_t
count_found(const struct row *row)
{
    struct check_item items[TENSORS_AT_MOST + 1] = {{{0}}};
    struct check_facts facts = {.item_count = 0};
    struct check_evidence evidence = {.ranks = 2};
    struct unannotated_findings findings = {0};
    add_tensor(&facts, items, CHECK_GRADIENT, row->gradients, 0);
    add_tensor(&facts, items, CHECK_PARAMETER, row->parameters, 0);
    add_tensor(&facts, items, CHECK_MEMORY, row->in_place[0], 1);
    add_tensor(&facts, items, CHECK_MEMORY, row->in_place[1], 1);
    add_tensor(&facts, items, CHECK_MEMORY, row->beside, 0);
    unannotated_observe(&evidence, &facts, &findings);
    for (size_t i = 0; i < findings.count; ++i) {
        ck_assert_int_eq(findings.list[i].kind, UNANNOTATED_PARAMETER);
        ck_assert_str_eq(findings.list[i].text, "sgd");
    }
    size_t count = findings.count;
    unannotated_free(&findings);
    return count;
}

TABLE_TEST(parameters_without_annotation, rows)
{
    const struct row *row = &rows[_i];
    ck_assert_msg(count_found(row) == row->found, "%s: %zu are found", row->why, count_found(row));
}

struct after_row {
    const char *why;
    struct check_tensor tensor;
    double after, between; /* updates after the last DDP_STEP, and at most between two */
    size_t found;
};

static const struct after_row after_rows[] = {
    {"a training of memory without annotation", {.role = CHECK_MEMORY, .group = 1}, 3, 0, .found = 1},
    {"it was trained before, too", {.role = CHECK_MEMORY, .group = 1}, 3, 1, .found = 1},
    {"so many updates come in each step", {.role = CHECK_MEMORY, .group = 1}, 3, 2, .found = 0},
    {"too few updates", {.role = CHECK_MEMORY, .group = 1}, 2, 0, .found = 0},
    {"its momentum", {.role = CHECK_MEMORY, .group = 0}, 3, 0, .found = 0},
    {"an annotated parameter, of which the verdict tells", {.role = CHECK_PARAMETER}, 3, 1, .found = 0},
};

TABLE_TEST(memory_after_the_last_step, after_rows)
{
    const struct after_row *row = &after_rows[_i];
    struct check_row after = {
        .kind = CHECK_ROW_AFTER, .tensor = row->tensor, .norms = {.own = row->after, .reference = row->between}};
    struct check_evidence evidence = {.ranks = 2, .alone = {&after, 1}};
    struct check_facts facts = {.item_count = 0};
    struct unannotated_findings findings = {0};
    snprintf(after.tensor.text, sizeof(after.tensor.text), "adam");
    unannotated_observe(&evidence, &facts, &findings);
    ck_assert_msg(findings.count == row->found, "%s: %zu are found", row->why, findings.count);
    for (size_t i = 0; i < findings.count; ++i) {
        ck_assert_int_eq(findings.list[i].kind, UNANNOTATED_AFTER);
        ck_assert_str_eq(findings.list[i].text, "adam");
    }
    unannotated_free(&findings);
}

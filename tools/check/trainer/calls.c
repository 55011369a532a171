/*
 * calls.c - what calls say of an update that differs, where its gradients are equal (check.h): which scalars do the
 * functions get that update parameters, and which operations get gradients between backward and DDP_STEP?
 *
 * Scalars are arguments of 4 or 8 bytes whose bits are those of an ordinary floating-point number or a small integer:
 * pointers are neither. Nothing here makes anything different. Called by updaters.c, with memory_lock held.
 */
#include "tools/check/trainer/check.h"

enum {
    SCALARS_AT_MOST = 16,
    ROWS_AT_MOST = 256,
    FRONT_STEP = 2, /* behind this DDP_STEP */
    GRADIENTS_AT_MOST = 256,
};

/* ---- scalars ---- */

struct scalars {
    struct scalar {
        double value; /* NAN: none */
        bool is_whole;
    } list[SCALARS_AT_MOST]; /* by argument */
};

/* A number, as its bits are an ordinary float or double, or a small integer. */
static struct scalar
read_scalar(const void *bytes, size_t count)
{
    float small = 0;
    double wide = NAN;
    int64_t whole = INT64_MAX;
    int32_t narrow;
    if (count == sizeof(small)) {
        memcpy(&small, bytes, sizeof(small));
        memcpy(&narrow, bytes, sizeof(narrow));
        wide = isnormal(small) ? (double)small : NAN;
        whole = narrow;
    } else if (count == sizeof(wide)) {
        memcpy(&wide, bytes, sizeof(wide));
        memcpy(&whole, bytes, sizeof(whole));
    }
    if (isnormal(wide) && fabs(wide) > 1e-30 && fabs(wide) < 1e30)
        return (struct scalar){wide, false};
    bool is_small = whole > INT32_MIN && whole < INT32_MAX; /* no pointer is */
    return (struct scalar){is_small ? (double)whole : NAN, true};
}

void
calls_scalars(const struct operation *operation, const struct function_layout *layout, uint32_t step, uint32_t updater,
              uint32_t number)
{
    static unsigned rows;
    struct scalars own = {0}, theirs;
    struct reference_key key = {.kind = REFERENCE_SCALARS, .role = updater, .step = step, .number = number};
    for (unsigned i = 0; i < SCALARS_AT_MOST; ++i) {
        const void *bytes = layout != NULL && i < layout->param_count ? pointers_argument(operation, layout, i) : NULL;
        own.list[i] = bytes != NULL ? read_scalar(bytes, layout->params[i].bytes) : (struct scalar){NAN, true};
    }
    if (values_writer() != NULL)
        values_put(&key, &own, sizeof(own));
    if (values_writer() != NULL || !values_get(&key, &theirs, sizeof(theirs)))
        return;
    for (uint32_t i = 0; i < SCALARS_AT_MOST && rows < ROWS_AT_MOST; ++i) {
        const struct scalar *mine = &own.list[i], *its = &theirs.list[i];
        bool alike = mine->is_whole == its->is_whole || mine->value == 0 || its->value == 0;
        /* It may be made of sums of floats, as the bound of a clipping is. */
        bool near = fabs(mine->value - its->value) <= (mine->is_whole ? 0 : 1e-5 * fabs(its->value));
        if (isnan(mine->value) || isnan(its->value) || near || !alike)
            continue;
        struct check_row row = {
            .kind = CHECK_ROW_SCALAR, .step = step, .value = i, .norms = {.own = mine->value, .reference = its->value}};
        snprintf(row.text, sizeof(row.text), "%s", layout->name);
        values_row(&row);
        ++rows;
    }
}

/* ---- in front of DDP_STEP ---- */

/* Guarded by memory_lock: behind the last update of the step. */
static struct {
    struct {
        uint64_t first, last; /* calls that got it; 0: none */
    } gradients[GRADIENTS_AT_MOST];
    uint64_t changer; /* the last call that got a gradient behind another one */
    char changer_name[96];
    char source[96], user[96]; /* what gets gradients and memory that an update gets, too, and that update */
} front;

/* What the current operation gets. */
struct getting {
    const struct calls_operation *its;
    const char *user;
    bool any_written, any_parameter; /* a gradient that another call has got before */
};

static void
look_at_pointer(void *arg, const struct pointed *pointed)
{
    struct getting *getting = arg;
    struct tensor tensor;
    CUdeviceptr next;
    if (!pointers_annotated(pointed->address, &tensor, &next)) {
        const char *user = getting->its->given(pointed->address);
        getting->user = user != NULL ? user : getting->user;
        return;
    }
    getting->any_parameter = getting->any_parameter || tensor.role == TENSOR_PARAMETER;
    if (tensor.role != TENSOR_GRADIENT || tensor.index >= GRADIENTS_AT_MOST)
        return;
    uint64_t first = front.gradients[tensor.index].first;
    getting->any_written = getting->any_written || (first != 0 && first != getting->its->call);
    front.gradients[tensor.index].first = first != 0 ? first : getting->its->call;
    front.gradients[tensor.index].last = getting->its->call;
    if (first != 0 && first != getting->its->call) {
        front.changer = getting->its->call;
        snprintf(front.changer_name, sizeof(front.changer_name), "%s", getting->its->name);
    }
}

void
calls_in_front(const struct operation *operation, const struct function_layout *layout,
               const struct calls_operation *its, uint32_t step)
{
    struct getting getting = {.its = its};
    if (step != FRONT_STEP)
        return;
    pointers_visit_all(operation, layout, look_at_pointer, &getting);
    if (its->is_updater && getting.any_parameter) {
        memset(&front, 0, sizeof(front));
    } else if (getting.any_written && getting.user != NULL && front.source[0] == '\0') {
        snprintf(front.source, sizeof(front.source), "%s", its->name);
        snprintf(front.user, sizeof(front.user), "%s", getting.user);
    }
}

void
calls_boundary(uint32_t step)
{
    struct check_row row = {.kind = CHECK_ROW_FRONT, .step = step};
    if (step != FRONT_STEP + 1 || values_writer() == NULL)
        return;
    for (size_t i = 0; i < GRADIENTS_AT_MOST && front.changer != 0; ++i)
        row.value += front.gradients[i].last == front.changer && front.gradients[i].first != front.changer;
    if (row.value > 0) {
        snprintf(row.text, sizeof(row.text), "%s", front.changer_name);
        values_row(&row);
    }
    if (front.source[0] != '\0') {
        row.value = 0;
        snprintf(row.text, sizeof(row.text), "%s", front.source);
        snprintf(row.tensor.text, sizeof(row.tensor.text), "%s", front.user);
        values_row(&row);
    }
}

/*
 * course.c - the course of a run of `ddprun check`: which step it is, what is looked at there, and when it ends
 * (check.h). The engine calls it by the table of observer.c.
 */
#include "tools/check/trainer/check.h"

#include "base/clock.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/sandbox/files.h"

enum {
    STEP_WAIT_MS = 2000,  /* at least, for a DDP_STEP behind enough rounds */
    SHARDS_AT_MOST = 256, /* rows of DDP_SHARD with a total of their own */
};

static struct {
    void (*leave)(void);
    bool opened;           /* rows can be written */
    int64_t begin_ms;      /* of the run */
    int64_t first_ms;      /* when the first step was reached */
    bool over;             /* all that was asked for has been written */
    bool any_boundary;     /* a boundary was reached, or a round has begun: */
    bool in_rounds;        /* steps are rounds of DDP_REDUCE calls */
    int64_t wait_until_ms; /* for a DDP_STEP, once `rounds` of them are enough; 0: they are not yet */
    uint32_t rounds;
    int first_group; /* of this group, whose boundaries count the steps */
    bool graphs;     /* DDP_STEP was captured: launches of graphs count too */
    bool weighs;     /* shares are unequal, and weighted */
    uint32_t steps;  /* boundaries of the first group that were reached, or launches */
    uint32_t group_steps[GROUPS_AT_MOST];
    uint32_t means;
    uint32_t shards;
    _Atomic uint64_t copied_bytes; /* behind the second boundary */
} course;

void
check_open(void (*leave)(void))
{
    course.leave = leave;
    course.begin_ms = clock_now_ms();
    const char *path = getenv(DDPRUN_ENV_CHECK_RUN);
    if (!check_run_load(path != NULL ? path : "", &check_run))
        stop_job("cannot read %s, the request of ddprun check to this rank: %m; on several hosts use --reference with "
                 "a file in a folder that all of them have",
                 path != NULL ? path : "the file");
    /* A script that trains several times: the first training is compared, and the others need not run. */
    if (engine_state.rendezvous.generation > 0)
        course.leave();
    course.opened = true;
    engine_state.off = OFF_LAUNCH_FILTER | OFF_NONFINITE | OFF_UNAVERAGED | OFF_FORGOTTEN | OFF_TRIALS;
    /* The launcher compares the ranks, by the hashes that all of them leave of every tensor at every step. */
    engine_state.options.check_every = 0;
    values_open();
    look_open();
    beside_open();
    turn_memory_open();
    turn_host_open();
}

/* ---- what the program says ---- */

void
check_annotated(const struct tensor *parameter)
{
    if (!check_run.perturbed || course.any_boundary)
        return;
    ENTER_CONTEXT();
    context_synchronize("at a DDP_PARAMETER");
    values_perturb(parameter, true);
}

void
check_mean(void *value, double own, int type, const struct ddp_site *site)
{
    if (check_turns.any) { /* each value is of another batch */
        turn_host_mean(value, own, type, site);
        return;
    }
    if (!course.over && course.wait_until_ms == 0)
        compare_mean(values_number(value, type), type, course.means++, course.steps, site);
}

void
check_shard(size_t total, size_t *first, size_t *count, const struct ddp_site *site)
{
    size_t world = (size_t)engine_state.rendezvous.world_size;
    (void)first, (void)count, (void)site;
    struct check_row row = {
        .kind = CHECK_ROW_SHARD, .step = course.steps, .value = total, .uneven = total % world != 0};
    static size_t last;
    if (course.shards == 0 || row.uneven || (total != last && course.shards < SHARDS_AT_MOST)) {
        ++course.shards;
        values_row(&row);
    }
    last = total;
}

void
check_copied(CUdeviceptr to, const void *source, size_t bytes, size_t pitch, size_t rows)
{
    bool is_compared = (!check_run.perturbed || check_run.is_far) && !check_run.probes && check_run.factor == 0;
    is_compared = is_compared && (!course.in_rounds || values_writer() != NULL); /* a DDP_STEP may come */
    if (course.over || !is_compared || source == NULL || bytes == 0 || pitch == 0)
        return;
    if (course.graphs || atomic_load(&engine_state.captures_open) > 0)
        return;
    if (pitch == bytes) {
        bytes *= rows;
        rows = 1;
    }
    char place[sizeof((struct check_row){0}.text)];
    uint64_t site = call_site_find(place, sizeof(place));
    struct tensor tensor;
    CUdeviceptr next;
    bool annotated = pointers_annotated(to, &tensor, &next) || pointers_annotated((uintptr_t)source, &tensor, &next);
    for (size_t row = 0; row < rows && site != 0; ++row)
        copies_seen(site, place, (const char *)source + row * pitch, bytes, annotated);
}

/* ---- the steps ---- */

/* Copies of the tensors of a role, in the order of annotation: those that boundaries of the group average; with -1
 * those that none averages. The caller frees them. */
static struct tensor *
list_tensors(enum tensor_role role, int group, size_t *count_p)
{
    size_t count = 0;
    engine_lock();
    struct tensor *list = malloc((engine_state.tensor_count + 1) * sizeof(*list));
    for (size_t i = 0; list != NULL && i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        bool of_group = group < 0 ? !tensor->averaged && !tensor_waits_for_group(tensor)
                                  : tensor->averaged && tensor->group == group;
        if (tensor->role == role && tensor->placed && of_group)
            list[count++] = *tensor;
    }
    engine_unlock();
    if (list == NULL)
        stop_job("out of memory");
    *count_p = count;
    return list;
}

/* Where the first group is, for what is compared at another group's step. */
static uint32_t
during(uint32_t step)
{
    return course.steps != step ? course.steps : 0;
}

/* As the step before has left it. `is_last`: but for memory of the host, which the program may have freed, unseen. */
static void
look_at(enum tensor_role role, uint32_t step, bool is_last)
{
    size_t count;
    struct check_row row;
    OWNED struct tensor *list = list_tensors(role, -1, &count);
    const struct compare_at at = {
        .step = step, .is_update = check_run.forced && step > 1 && role != TENSOR_BUFFER, .units = check_run.units};
    values_together(list, count);
    for (size_t i = 0; i < count; ++i) {
        if (!is_last || list[i].kind != MEMORY_HOST)
            compare_tensor(&list[i], &at, &row);
        if (!is_last && role == TENSOR_PARAMETER && check_run.nudge > 0)
            values_perturb(&list[i], true);
    }
    values_wait();
}

/* After a boundary of the group: compares its averaged gradients, and sets them to the reference's where steps begin
 * from it. */
static void
look_at_gradients(int group, uint32_t step)
{
    size_t count;
    if (compare_leads_on(during(step) > 0 ? during(step) : step))
        return;
    OWNED struct tensor *list = list_tensors(TENSOR_GRADIENT, group, &count);
    values_together(list, count);
    force_gradients(list, count, group, &(struct compare_at){.step = step, .during = during(step)});
    values_wait();
}

/* What DDP_STEP_PARAMETERS has averaged at this boundary of the group is as the step leaves it. Each rank's update was
 * rounded, and so is their sum: about so many units in the last place. */
static void
look_at_averaged(int group, uint32_t step)
{
    static const enum tensor_role roles[] = {TENSOR_PARAMETER, TENSOR_STATE};
    const struct compare_at at = {.step = step + 1,
                                  .during = during(step) > 0 ? during(step) + 1 : 0,
                                  .is_update = check_run.forced && !course.graphs,
                                  .units = 2 + engine_state.rendezvous.world_size / 4.0,
                                  .is_averaged = true};
    for (size_t k = 0; k < sizeof(roles) / sizeof(roles[0]); ++k) {
        size_t count;
        struct check_row row;
        OWNED struct tensor *list = list_tensors(roles[k], group, &count);
        for (size_t i = 0; i < count; ++i) {
            if (step == 1)
                compare_note(CHECK_ROW_AVERAGED, 1, &list[i]);
            compare_tensor(&list[i], &at, &row);
        }
    }
}

_Static_assert((int)CHECK_TYPES_FLOAT16 == (int)LIBRARY_FLOAT16 && (int)CHECK_TYPES_BFLOAT16 == (int)LIBRARY_BFLOAT16,
               "run.h");

/* Rows of what is known of the whole run when it ends: bytes copied for a step, rounds, batches, types of products,
 * gradients of groups that never stepped. */
static void
note_at_end(void)
{
    readings_note(course.steps);
    if (course.steps > 2)
        values_note(CHECK_ROW_COPIED, course.steps, atomic_load(&course.copied_bytes) / (course.steps - 2));
    if (course.in_rounds)
        values_note(CHECK_ROW_ROUNDS, course.steps, 0);
    if (check_turns.any)
        values_note(CHECK_ROW_BATCHES, course.steps, check_turns.batches);
    if (engine_state.services->library_types != NULL)
        values_note(CHECK_ROW_TYPES, course.steps,
                    __atomic_load_n(engine_state.services->library_types, __ATOMIC_RELAXED));
    for (int g = 0; g < GROUPS_AT_MOST && !course.graphs; ++g) {
        size_t count = 0;
        OWNED struct tensor *list = course.group_steps[g] == 0 ? list_tensors(TENSOR_GRADIENT, g, &count) : NULL;
        for (size_t i = 0; i < count; ++i)
            compare_note(CHECK_ROW_UNSTEPPED, course.steps, &list[i]);
    }
}

/* Ends the run after so many steps, once. `by_us`: check ends the program, and this does not return. */
static void
end_run(uint32_t steps, bool by_us)
{
    course.over = true;
    turn_host_ends(by_us);
    note_at_end();
    values_close(steps, by_us, course.in_rounds);
    if (by_us)
        course.leave();
}

/* In a first run enough rounds may be what prepares a training. */
static void
end_steps(uint32_t steps)
{
    if (!course.in_rounds || values_writer() == NULL)
        end_run(steps, true);
    int64_t now_ms = clock_now_ms(), passed_ms = now_ms - course.begin_ms;
    course.rounds = steps;
    course.wait_until_ms = now_ms + (passed_ms > STEP_WAIT_MS ? passed_ms : STEP_WAIT_MS);
}

/* Where no number was asked for: whether so many steps are enough (tools/check/format/run.h). */
static bool
is_enough(uint32_t done)
{
    int64_t passed_ms = clock_now_ms() - course.first_ms, next_ms = passed_ms / done * (done + 1);
    if (!check_run.chooses_steps || done < CHECK_STEPS_LEAST)
        return false;
    if (!values_room_ends(done) && next_ms <= 1000 * CHECK_RUN_S)
        return false;
    values_note(CHECK_ROW_SHORT, done, 0);
    return true;
}

/* The first group's boundary or the launch of a graph: parameters as the last step has left them.
 * `site`: of the DDP_STEP; NULL: no call in the source is this boundary. */
static void
count_step(const struct ddp_site *site)
{
    uint32_t step = ++course.steps;
    check_turns.rounds = step;
    values_note_boundary(step, site);
    if (step <= check_run.steps && !course.in_rounds)
        copies_boundary(step);
    look_at(TENSOR_PARAMETER, step, false);
    look_at(TENSOR_STATE, step, false);
    if (!course.in_rounds)
        beside_boundary(step);
    if (step > check_run.steps || (step > 1 && is_enough(step - 1)))
        end_steps(step - 1);
}

/* At the first boundary, round or launch of a graph with a DDP_STEP: steps are counted from here on. */
static void
begin_steps(void)
{
    course.any_boundary = true;
    course.first_ms = clock_now_ms();
    values_ask_for_room();
    if (ddprun_files_steps_begin != NULL)
        ddprun_files_steps_begin();
    ending_before_driver(); /* the parameters are looked at once more if the program ends by itself */
}

/* ---- rounds: steps of a program that has no DDP_STEP ---- */

/* Whether a DDP_REDUCE may begin a step by itself: in the reference's run it did, or no gradient is annotated so
 * far. */
static bool
may_be_round(void)
{
    if (values_reader() != NULL)
        return values_reader()->in_rounds;
    engine_lock();
    bool any_gradient = ANY_NUMBER(g, 0, GROUPS_AT_MOST, group_has(g, false));
    engine_unlock();
    return !any_gradient;
}

/* DDP_STEP comes after all: what was before it is forgotten. */
static void
forget_rounds(void)
{
    values_restart();
    compare_restart();
    reduced_restart();
    course.in_rounds = course.any_boundary = false;
    course.wait_until_ms = 0;
    course.steps = 0;
}

/* Waits for what the memory is to hold. */
static void
settle_memory(const struct tensor *memory, CUstream stream)
{
    CUcontext current = NULL;
    if (memory->kind == MEMORY_DEVICE)
        require_cuda(engine_state.driver.cuStreamSynchronize_p(stream), "waiting for DDP_REDUCE");
    else if (engine_state.driver.cuCtxGetCurrent_p(&current) == CUDA_SUCCESS && current != NULL)
        context_synchronize("at DDP_REDUCE");
}

/* Floats of which some are not zero: whole numbers, such as what says that nothing is left to do, may be the same. */
static void
note_own_part(const struct tensor *memory)
{
    static const char zeros[256];
    char begin[sizeof(zeros)];
    size_t bytes = memory->bytes < sizeof(zeros) ? memory->bytes : sizeof(zeros);
    if (engine_state.rendezvous.world_size == 1 || course.steps > 2 || !type_is_of_gradients(memory->type))
        return;
    values_tensor_out(begin, memory, 0, bytes);
    if (memcmp(begin, zeros, bytes) != 0)
        values_note(CHECK_ROW_OWN, course.steps, values_hash(memory));
}

/* What DDP_REDUCE works on, described as a tensor. */
static struct tensor
memory_of(const struct observed_reduction *reduced)
{
    return (struct tensor){.address = reduced->address,
                           .kind = reduced->kind,
                           .bytes = reduced->bytes,
                           .count = reduced->call->count,
                           .type = reduced->call->type,
                           .site = *reduced->call->site};
}

/* A program may reduce in another thread than it steps in. */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

void
check_reduce_begins(const struct observed_reduction *reduced, CUstream stream)
{
    const struct tensor memory = memory_of(reduced);
    HOLD(&looking);
    turn_host_reduce(&memory.site);
    if (check_run.look > 0)
        look_reduce_begins(&memory, course.steps);
    if (course.over || atomic_load(&engine_state.captures_open) > 0 || (course.any_boundary && !course.in_rounds))
        return;
    if (course.wait_until_ms > 0) {
        if (clock_now_ms() > course.wait_until_ms)
            end_run(course.rounds, true);
        return;
    }
    if (check_turns.any) /* see check_reduce_ends() */
        return;
    bool begins = course.in_rounds ? reduced_repeats(&memory.site, course.steps) : may_be_round();
    if (!begins && !course.in_rounds)
        return;
    settle_memory(&memory, stream);
    if (!course.in_rounds) {
        course.in_rounds = true;
        begin_steps();
    }
    if (begins)
        count_step(NULL);
    if (course.wait_until_ms == 0)
        note_own_part(&memory);
}

/* After a DDP_REDUCE: compares its result, and sets it to the reference's where steps begin from it. */
static void
look_at_reduced(const struct tensor *memory, int op, CUstream stream)
{
    if (course.over || course.wait_until_ms != 0 || course.steps > check_run.steps ||
        atomic_load(&engine_state.captures_open) > 0)
        return;
    settle_memory(memory, stream);
    bool adds = op != DDP_OP_MIN && op != DDP_OP_MAX;
    if (adds && check_run.perturbed && !check_run.is_far && !course.in_rounds) /* ranks add in another order */
        values_perturb(memory, false);
    if (course.steps > 0)
        reduced_look(memory, op, course.steps, course.in_rounds);
}

void
check_reduce_ends(const struct observed_reduction *reduced, CUstream stream)
{
    if (reduced->call->count == 0)
        return;
    const struct tensor memory = memory_of(reduced);
    HOLD(&looking);
    if (!check_turns.any) /* else it is a figure: each rank has the sum of its own batches */
        look_at_reduced(&memory, reduced->call->op, stream);
    if (check_run.look > 0)
        look_ends(course.steps == 0); /* before the first DDP_STEP it has no number */
}

/* ---- DDP_STEP ---- */

void
check_boundary_begins(int group, bool captured, const struct ddp_site *site)
{
    HOLD(&looking);
    if (course.over || (course.in_rounds && values_writer() == NULL))
        return;
    if (course.in_rounds)
        forget_rounds();
    if (captured && !course.graphs) {
        course.graphs = true;
        values_note(CHECK_ROW_GRAPHS, course.steps, 0);
    }
    struct weight weight = weight_of(&memory_state.groups[group]);
    look_boundary(weight_factor(&weight), course.steps);
    if (weight_factor(&weight) != 1 && !course.weighs) {
        course.weighs = true;
        values_note(CHECK_ROW_WEIGHT, course.steps, 0);
    }
    if (captured || atomic_load(&engine_state.captures_open) > 0) /* nothing may be waited for */
        return;
    ENTER_CONTEXT();
    context_synchronize("at DDP_STEP");
    if (!course.any_boundary) {
        course.first_group = group;
        begin_steps();
    }
    ++course.group_steps[group];
    if (group == course.first_group)
        count_step(site);
}

void
check_boundary_ends(int group)
{
    HOLD(&looking);
    uint32_t step = course.group_steps[group];
    if (course.over || course.graphs || step == 0 || (group == course.first_group && step > check_run.steps) ||
        atomic_load(&engine_state.captures_open) > 0)
        return;
    ENTER_CONTEXT();
    context_synchronize("after DDP_STEP");
    look_at_gradients(group, step);
    look_at_averaged(group, step);
    if (group == course.first_group)
        look_at(TENSOR_BUFFER, step, false);
}

void
check_operation_begins(const struct operation *operation)
{
    if (course.over)
        return;
    if (course.steps >= 2 && operation->host_source != NULL)
        atomic_fetch_add(&course.copied_bytes, operation->host_bytes);
    size_t bytes;
    const void *source = copies_host_source(operation, &bytes);
    if (source != NULL)
        check_copied(operation->operand_count > 0 ? operation->operands[0].address : 0, source, bytes, bytes, 1);
    if (operation->graph != NULL && course.graphs && atomic_load(&engine_state.captures_open) == 0) {
        ENTER_CONTEXT();
        context_synchronize("at the launch of a graph");
        if (!course.any_boundary)
            begin_steps();
        count_step(NULL);
    }
    bool is_known = atomic_load(&engine_state.driver_ready); /* the first annotation may come in the first region */
    if (check_turns.any && is_known) {
        turn_memory_operation(operation);
        turn_host_operation(operation);
    }
    if (course.steps > 0 && !course.in_rounds)
        beside_operation_begins(operation);
    if (check_run.look > 0)
        look_begins(operation, course.steps, source != NULL);
}

void
check_operation_ends(const struct operation *operation, bool enqueued)
{
    size_t bytes;
    const void *source = check_run.nudge > 0 && enqueued ? copies_host_source(operation, &bytes) : NULL;
    if (source != NULL && operation->operand_count > 0 && atomic_load(&engine_state.captures_open) == 0 &&
        operation->operands[0].bytes == bytes) {
        ENTER_CONTEXT();
        values_perturb_copied(operation->operands[0].address, source, bytes);
    }
    if (check_turns.any && !course.over)
        turn_host_operation_ends(enqueued);
    if (!course.over && course.steps > 0 && !course.in_rounds)
        beside_operation_ends(enqueued);
    if (check_run.look > 0)
        look_ends(enqueued);
}

void
check_operation_left_out(const struct operation *operation)
{
    if (!course.over)
        turn_host_left_out(operation);
}

void
check_program_ends(void)
{
    if (course.over)
        return;
    if (course.wait_until_ms > 0) {
        end_run(course.rounds, false);
        return;
    }
    if (course.any_boundary && !atomic_load(&engine_state.context_ended)) {
        ENTER_CONTEXT();
        if (engine_state.context != NULL) /* there is none where DDP_REDUCE has seen only memory of the host */
            context_synchronize("at the end");
        ++course.steps;
        look_at(TENSOR_PARAMETER, course.steps, true);
        look_at(TENSOR_STATE, course.steps, true);
        if (!course.in_rounds)
            beside_ends(course.steps);
    }
    end_run(course.steps > 0 ? course.steps - 1 : 0, false);
}

/* ---- alarms ---- */

bool
check_takes_alarm(const char *text)
{
    if (!course.opened)
        return false;
    struct check_row row = {.kind = CHECK_ROW_ALARM, .step = course.steps};
    snprintf(row.text, sizeof(row.text), "%s", text);
    values_row(&row);
    return true;
}

void
check_notes_stop(const char *text)
{
    if (!course.opened)
        return;
    struct check_row row = {.kind = CHECK_ROW_STOPPED, .step = course.steps, .value = DDPRUN_EXIT_FAILURE};
    snprintf(row.text, sizeof(row.text), "%s", text);
    values_row(&row);
}

/*
 * exec.c - instantiated graphs: launches and updates.
 *
 * An instantiated graph (exec) is an immutable program: the nodes' work in an order that their dependencies allow. A
 * launch is one command that runs it in the launch stream; which is all that CUDA promises about order. Under
 * SOFTGPU_CHAOS each launch takes another allowed order, so that a missing dependency shows. An update swaps the
 * program: launches that are under way keep theirs.
 */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

struct graph_command {
    struct command command;
    struct program *program;
    struct moment **moments; /* by step: of event record nodes. NULL: there are no event nodes */
    _Atomic uint64_t random;
};

void
program_release(struct program *program)
{
    if (atomic_fetch_sub(&program->refs, 1) != 1) {
        return;
    }
    for (size_t i = 0; i < program->count; ++i) {
        if (program->steps[i].work != NULL) {
            work_release(program->steps[i].work);
        }
        free(program->steps[i].before);
    }
    free(program->order);
    free(program);
}

/*
 * Puts the steps in an order that their dependencies allow: the first one, or with `random` any. `waiting` has room for
 * all. False if there is no such order: the dependencies have a cycle.
 */
static bool
make_order(const struct program *program, size_t *order, bool *done, uint64_t random)
{
    memset(done, 0, program->count * sizeof *done);
    for (size_t placed = 0, start = 0; placed < program->count; ++placed) {
        size_t found = program->count;
        if (random != 0) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            start = (size_t)(random >> 33) % program->count;
        }
        for (size_t i = 0; i < program->count && found == program->count; ++i) {
            size_t candidate = (start + i) % program->count;
            const struct step *step = &program->steps[candidate];
            bool ready = !done[candidate];
            for (size_t k = 0; ready && k < step->before_count; ++k) {
                ready = done[step->before[k]];
            }
            found = ready ? candidate : found;
        }
        if (found == program->count) {
            return false;
        }
        done[found] = true;
        order[placed] = found;
        start = random != 0 ? start : found; /* in the usual case the next one is ready */
    }
    return true;
}

static bool
fill_program(struct program *program, const struct graph *graph)
{
    for (size_t i = 0; i < graph->count; ++i) {
        const struct node *node = graph->nodes[i];
        struct step *step = &program->steps[i];
        *step = (struct step){
            .type = node->type, .id = node->id, .work = work_hold(node->work), .before_count = node->before_count};
        step->before = malloc((node->before_count + 1) * sizeof *step->before);
        if (step->before == NULL) {
            return false;
        }
        program->has_events = program->has_events || step->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
                              step->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
        for (size_t k = 0; k < node->before_count; ++k) {
            step->before[k] = node->before[k]->number;
        }
    }
    return true;
}

static CUresult
program_make(const struct graph *graph, struct program **program_p)
{
    struct program *program = calloc(1, sizeof *program + graph->count * sizeof program->steps[0]);
    bool *done = malloc(graph->count + 1);
    if (program == NULL || done == NULL) {
        free(program);
        free(done);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&program->refs, 1);
    program->count = graph->count;
    program->order = malloc((graph->count + 1) * sizeof *program->order);
    CUresult result = program->order == NULL || !fill_program(program, graph) ? CUDA_ERROR_OUT_OF_MEMORY
                      : !make_order(program, program->order, done, 0)         ? CUDA_ERROR_INVALID_VALUE
                                                                              : CUDA_SUCCESS;
    free(done);
    if (result != CUDA_SUCCESS) {
        program_release(program);
        return result;
    }
    *program_p = program;
    return CUDA_SUCCESS;
}

CUresult
exec_enter(CUgraphExec handle, struct exec **exec_p)
{
    struct exec *exec = (struct exec *)handle;
    TRY(driver_enter());
    REQUIRE(exec != NULL && atomic_load(&exec->magic) == MAGIC_EXEC);
    *exec_p = exec;
    return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiateWithFlags(CUgraphExec *exec_out, CUgraph handle, unsigned long long flags)
{
    const unsigned long long hints = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    struct graph *graph;
    struct program *program;
    TRY(graph_enter(handle, &graph));
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
        say("cuGraphInstantiate: launching graphs from kernels is not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    REQUIRE(exec_out != NULL && (flags & ~hints) == 0 && !atomic_load(&graph->capturing));
    TRY(capture_check_unsafe()); /* it may allocate */
    TRY(program_make(graph, &program));
    struct exec *exec = object_take(OBJECT_EXEC, sizeof *exec);
    if (exec == NULL) {
        program_release(program);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->flags = flags;
    exec->program = program;
    pthread_mutex_init(&exec->lock, NULL);
    atomic_store(&exec->magic, MAGIC_EXEC);
    *exec_out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes);

/* The first form of the call, with room for a log; the driver leaves the log empty. */
CUresult
cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
    if (log != NULL && log_bytes > 0) {
        *log = '\0';
    }
    if (error_node != NULL) {
        *error_node = NULL;
    }
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

static CUresult
instantiate_with(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    REQUIRE(parameters != NULL);
    CUresult result = cuGraphInstantiateWithFlags(exec, graph, parameters->flags);
    parameters->hErrNode_out = NULL;
    parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}
BOTH_FLAVOURS(cuGraphInstantiateWithParams, _ptsz,
              (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
              ((void)flavour, instantiate_with(exec, graph, parameters)))

CUresult
cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    struct exec *exec;
    CUresult result = exec_enter(handle, &exec);
    return ANSWER(result, flags, exec->flags);
}

CUresult
cuGraphExecDestroy(CUgraphExec handle)
{
    struct exec *exec;
    TRY(exec_enter(handle, &exec));
    atomic_store(&exec->magic, 0);
    pthread_mutex_lock(&exec->lock);
    program_release(exec->program); /* launches under way hold it too */
    if (exec->last.stream != NULL) {
        stream_release(exec->last.stream);
    }
    pthread_mutex_unlock(&exec->lock);
    pthread_mutex_destroy(&exec->lock);
    object_give(OBJECT_EXEC, exec);
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

static void
run_steps(const struct graph_command *graph, const size_t *order, struct stream *stream)
{
    for (size_t i = 0; i < graph->program->count; ++i) {
        struct command *command = graph->program->steps[order[i]].work->command;
        struct moment *moment = graph->moments != NULL ? graph->moments[order[i]] : NULL;
        if (command != NULL) {
            command->run(command, stream);
        }
        if (moment != NULL) {
            event_node_reached(moment);
        }
    }
}

static void
run_graph(struct command *command, struct stream *stream)
{
    struct graph_command *graph = (struct graph_command *)command;
    const struct program *program = graph->program;
    size_t *order = NULL;
    bool *done = NULL;
    if (driver.chaos) {
        order = malloc((program->count + 1) * sizeof *order);
        done = malloc(program->count + 1);
    }
    uint64_t random = driver.chaos_seed + atomic_fetch_add(&graph->random, 0x9e3779b97f4a7c15u);
    bool other = order != NULL && done != NULL && make_order(program, order, done, random | 1);
    run_steps(graph, other ? order : program->order, stream);
    free(order);
    free(done);
}

static void
end_graph(struct command *command)
{
    struct graph_command *graph = (struct graph_command *)command;
    for (size_t i = 0; graph->moments != NULL && i < graph->program->count; ++i) {
        event_node_drop(graph->moments[i]); /* NULL for all but record nodes */
    }
    free(graph->moments);
    program_release(graph->program);
}

/* Waits for the events of wait nodes, and makes moments for record nodes, for the command and for `mine`. */
static CUresult
prepare_events(struct graph_command *graph, struct stream *stream, struct moment **mine)
{
    const struct program *program = graph->program;
    graph->moments = calloc(program->count + 1, sizeof(struct moment *));
    REQUIRE_ELSE(graph->moments != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < program->count; ++i) {
        CUresult result = CUDA_SUCCESS;
        if (program->steps[i].type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
            result = event_node_wait(program->steps[i].work->command, stream);
        }
        if (program->steps[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
            graph->moments[i] = mine[i] = event_node_moment(stream);
            result = mine[i] == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        }
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* Submits a launch with event nodes. With exec->lock held, which keeps the program. */
static CUresult
submit_with_events(struct graph_command *command, struct stream *stream, uint64_t *number_p)
{
    const struct program *program = command->program;
    struct moment **mine = calloc(program->count + 1, sizeof(struct moment *));
    CUresult result = mine == NULL ? CUDA_ERROR_OUT_OF_MEMORY : prepare_events(command, stream, mine);
    if (result == CUDA_SUCCESS) {
        result = stream_submit(stream, &command->command, number_p); /* it may be through, and gone, at once */
    } else {
        command_drop(command);
    }
    for (size_t i = 0; mine != NULL && i < program->count; ++i) {
        if (mine[i] != NULL && result == CUDA_SUCCESS) {
            event_node_publish(program->steps[i].work->command, mine[i], *number_p);
        } else if (mine[i] != NULL) {
            event_node_drop(mine[i]);
        }
    }
    free(mine);
    return result;
}

CUresult
exec_child_command(CUgraph handle, struct command **command_p)
{
    struct graph *graph;
    struct program *program;
    TRY(graph_enter(handle, &graph));
    TRY(program_make(graph, &program));
    if (program->has_events) {
        say("cuGraphAddChildGraphNode: a graph with event nodes cannot be part of another");
        program_release(program);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct graph_command *command = command_new(sizeof *command, run_graph);
    if (command == NULL) {
        program_release(program);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    command->program = program;
    command->moments = NULL;
    atomic_store(&command->random, 0x9e3779b97f4a7c15u);
    command->command.end = end_graph;
    command->command.node_type = CU_GRAPH_NODE_TYPE_GRAPH;
    *command_p = &command->command;
    return CUDA_SUCCESS;
}

/* With exec->lock held. */
static CUresult
launch(struct exec *exec, struct stream *stream)
{
    static _Atomic uint64_t launches;
    struct graph_command *command = command_new(sizeof *command, run_graph);
    REQUIRE_ELSE(command != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    atomic_fetch_add(&exec->program->refs, 1);
    command->program = exec->program;
    command->moments = NULL;
    atomic_store(&command->random, atomic_fetch_add(&launches, 1) * 0xbf58476d1ce4e5b9u);
    command->command.end = end_graph;
    command->command.node_type = CU_GRAPH_NODE_TYPE_GRAPH;
    if (exec->last.stream != NULL) {
        command->command.after = (struct wait){stream_hold(exec->last.stream), exec->last.number};
    }
    uint64_t number;
    TRY(exec->program->has_events ? submit_with_events(command, stream, &number)
                                  : stream_submit(stream, &command->command, &number));
    if (exec->last.stream != NULL) {
        stream_release(exec->last.stream);
    }
    exec->last = (struct wait){stream_hold(stream), number};
    return CUDA_SUCCESS;
}

static CUresult
launch_graph(CUgraphExec handle, CUstream stream_handle, enum flavour flavour, bool only_check)
{
    struct exec *exec;
    struct stream *stream;
    TRY(stream_enter(stream_handle, flavour, &stream));
    TRY(exec_enter(handle, &exec));
    if (only_check) {
        return CUDA_SUCCESS;
    }
    TRY(capture_check_stream(stream)); /* the launch is no node of another graph */
    pthread_mutex_lock(&exec->lock);
    CUresult result = launch(exec, stream);
    pthread_mutex_unlock(&exec->lock);
    return result;
}
BOTH_FLAVOURS(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), launch_graph(exec, stream, flavour, false))
BOTH_FLAVOURS(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), launch_graph(exec, stream, flavour, true))

/* ---- updates ---- */

static CUgraphExecUpdateResult
compare(const struct program *program, const struct graph *graph, struct node **node_p)
{
    if (program->count != graph->count) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (size_t i = 0; i < graph->count; ++i) {
        const struct step *step = &program->steps[i];
        struct node *node = graph->nodes[i];
        *node_p = node;
        if (step->type != node->type) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        }
        bool same = step->before_count == node->before_count;
        for (size_t k = 0; same && k < node->before_count; ++k) {
            same = step->before[k] == node->before[k]->number;
        }
        if (!same) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
    }
    *node_p = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult
cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
    struct exec *exec;
    struct graph *graph;
    struct node *node = NULL;
    TRY(exec_enter(handle, &exec));
    CUresult result = graph_enter(graph_handle, &graph);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct program *program = NULL;
    pthread_mutex_lock(&exec->lock);
    CUgraphExecUpdateResult difference = compare(exec->program, graph, &node);
    if (difference == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        result = program_make(graph, &program);
    }
    if (program != NULL) {
        for (size_t i = 0; i < program->count; ++i) { /* its nodes are still those that it was instantiated from */
            program->steps[i].id = exec->program->steps[i].id;
        }
        program_release(exec->program);
        exec->program = program;
    }
    pthread_mutex_unlock(&exec->lock);
    if (info != NULL) {
        *info = (CUgraphExecUpdateResultInfo){
            .result = result != CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_ERROR : difference, .errorNode = (CUgraphNode)node};
    }
    return difference != CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : result;
}

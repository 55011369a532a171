/*
 * exec_node.c - instantiated graphs of which one node gets other work: cuGraphExec...NodeSetParams. The program, which
 * never changes, is replaced by another.
 */
#include "copy.h"
#include "exec.h"

#include <stdlib.h>
#include <string.h>

/* The program with other work in step `place`; takes the work. NULL without memory. */
static struct program *
program_with(const struct program *old, size_t place, struct work *work)
{
    size_t bytes = sizeof *old + old->count * sizeof old->steps[0];
    struct program *program = calloc(1, bytes);
    if (program == NULL) {
        work_release(work);
        return NULL;
    }
    atomic_store(&program->refs, 1);
    program->has_events = old->has_events;
    program->count = old->count;
    program->order = malloc((old->count + 1) * sizeof *program->order);
    bool ok = program->order != NULL;
    for (size_t i = 0; i < old->count; ++i) {
        struct step *step = &program->steps[i];
        *step = old->steps[i];
        step->work = i == place ? work : work_hold(old->steps[i].work);
        step->before = malloc((step->before_count + 1) * sizeof *step->before);
        ok = ok && step->before != NULL;
        if (step->before != NULL) {
            memcpy(step->before, old->steps[i].before, step->before_count * sizeof *step->before);
        }
    }
    if (!ok) {
        program_release(program);
        return NULL;
    }
    memcpy(program->order, old->order, old->count * sizeof *program->order);
    return program;
}

/* Puts a command in the place of what the node does there; takes it. Launches under way keep the old one. */
static CUresult
set_step(CUgraphExec handle, CUgraphNode node_handle, CUgraphNodeType type, struct command *command)
{
    struct exec *exec;
    struct node *node;
    struct work *work = work_new(command);
    CUresult result = exec_enter(handle, &exec);
    if (result == CUDA_SUCCESS) {
        result = node_enter(node_handle, (int)type, &node);
    }
    if (work == NULL || result != CUDA_SUCCESS) {
        if (work != NULL) {
            work_release(work);
        }
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&exec->lock);
    size_t place = 0;
    while (place < exec->program->count && exec->program->steps[place].id != node->id) {
        ++place;
    }
    if (place == exec->program->count) {
        work_release(work);
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        struct program *program = program_with(exec->program, place, work);
        result = program == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        if (program != NULL) {
            program_release(exec->program);
            exec->program = program;
        }
    }
    pthread_mutex_unlock(&exec->lock);
    return result;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(graph_kernel_command_again(node, parameters, &command));
    return set_step(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, command);
}

CUresult
cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    (void)context; /* memory is the same in all */
    struct command *command;
    TRY(copy_command_new(copy, &command));
    return set_step(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, command);
}

CUresult
cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *parameters,
                               CUcontext context)
{
    (void)context;
    struct command *command;
    TRY(fill_command_new(parameters, &command));
    return set_step(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, command);
}

CUresult
cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    struct command *command;
    TRY(host_command_new(parameters, &command));
    return set_step(exec, node, CU_GRAPH_NODE_TYPE_HOST, command);
}

CUresult
cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph handle)
{
    struct command *command;
    TRY(exec_child_command(handle, &command));
    return set_step(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, command);
}

static CUresult
set_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    struct command *command;
    TRY(event_node_new(event, type, &command));
    return set_step(exec, node, type, command);
}

CUresult
cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult
cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

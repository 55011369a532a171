/*
 * intervals.c - what the program itself says of the open interval: that touches do not count (DDP_NO_SYNC), and
 * that a gradient is complete (DDP_GRADIENT_READY).
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"

static struct ddp_site no_sync_site; /* where touches began or ended not to count; guarded by the engine's lock */

void
interval_no_sync(int begins, const struct ddp_site *site)
{
    engine_lock();
    bool again = begins && memory_state.no_sync, never = !begins && !memory_state.no_sync;
    struct ddp_site since = no_sync_site;
    memory_state.no_sync = begins != 0;
    no_sync_site = *site;
    engine_unlock();
    if (again)
        stop_job("DDP_NO_SYNC_BEGIN (%s:%d) after DDP_NO_SYNC_BEGIN (%s:%d): the first has not ended", site->file,
                 site->line, since.file, since.line);
    if (never)
        stop_job("DDP_NO_SYNC_END (%s:%d) without DDP_NO_SYNC_BEGIN before it", site->file, site->line);
    if (!begins && atomic_load(&engine_state.collectives_ready) && !atomic_load(&engine_state.context_ended)) {
        CUcontext before = context_enter();
        launch_ready(); /* what was complete already */
        context_leave(before);
    }
}

void
interval_refuse_step(const char *name, const struct ddp_site *site)
{
    engine_lock();
    bool inside = memory_state.no_sync;
    struct ddp_site since = no_sync_site;
    engine_unlock();
    if (inside)
        stop_job("%s (%s:%d) stands between DDP_NO_SYNC_BEGIN (%s:%d) and its DDP_NO_SYNC_END", name, site->file,
                 site->line, since.file, since.line);
}

/* ---- DDP_GRADIENT_READY ---- */

/* With lock held: what `address` lies in of all that is averaged, or NULL. */
static struct tensor *
gradient_at(CUdeviceptr address) WITH_LOCK
{
    struct tensor *tensor = tensor_at(address);
    return tensor != NULL && tensor->averaged ? tensor : NULL;
}

/* With lock held: it is ready, after what is enqueued on the stream. The event to record there, or NULL. */
static CUevent
declare(struct tensor *tensor, uint64_t stream_mask) WITH_LOCK
{
    const struct touch touch = {TOUCH_DECLARES, 0};
    struct group *group = &memory_state.groups[tensor->group];
    ++group->touch_count;
    if (tensor_is_shared(tensor)) { /* the host may write it still: it waits for DDP_STEP */
        group->opaque_streams |= stream_mask;
        return NULL;
    }
    tensor->declared = true;
    if (memory_state.annotations_changed || group->plan == NULL) {
        group->opaque_streams |= stream_mask;
        return NULL;
    }
    tensor->touched_by |= stream_mask;
    history_declare(&group->history, tensor->member);
    bool ready = group->overlapping && readiness_begin(&group->readiness, tensor->member, touch) == TOUCH_EXPECTED &&
                 readiness_enqueued(&group->readiness, tensor->member);
    return ready ? measure_ready_event(group, tensor->member) : NULL;
}

/* Captured work on the stream so far, whatever it goes through, may have been the gradient's. */
static void
declare_captured(struct capture *capture, CUdeviceptr address, CUstream stream)
{
    engine_lock();
    struct tensor *tensor = gradient_at(address);
    size_t place = tensor != NULL ? (size_t)(tensor - memory_state.tensors) : 0;
    engine_unlock();
    if (tensor == NULL)
        return;
    const struct captured_touch touch = {.places = &place, .count = 1, .declares = true, .call = TOUCH_DECLARES};
    capture_before_touch(capture, stream);
    capture_touch(capture, stream, &touch);
}

void
interval_gradient_ready(void *ptr, void *stream, const struct ddp_site *site)
{
    engine_lock();
    const struct tensor *named = tensor_at((CUdeviceptr)ptr);
    /* Before the first DDP_STEP_PARAMETERS a parameter is not averaged yet. */
    bool known = named != NULL && named->role != TENSOR_BUFFER, inside = memory_state.no_sync;
    engine_unlock();
    if (!known)
        stop_job("DDP_GRADIENT_READY(%s) (%s:%d): no annotated gradient or parameter at this address", site->text,
                 site->file, site->line);
    if (inside)
        stop_job("DDP_GRADIENT_READY(%s) (%s:%d) stands between DDP_NO_SYNC_BEGIN and DDP_NO_SYNC_END: the gradient is "
                 "not complete there",
                 site->text, site->file, site->line);
    if (engine_state.alone)
        return;

    device_refuse_after_reset("DDP_GRADIENT_READY", site);
    CUcontext before = context_enter();
    struct capture *capture;
    enum capture_state state = capture_find(stream, &capture);
    if (state == CAPTURE_ACTIVE)
        declare_captured(capture, (CUdeviceptr)ptr, stream);
    if (state != CAPTURE_NONE) { /* in a graph it is a touch; in a capture that has failed, nothing */
        context_leave(before);
        return;
    }
    stream_note_work(stream);
    engine_lock();
    struct tensor *tensor = gradient_at((CUdeviceptr)ptr);
    CUevent ready = tensor != NULL ? declare(tensor, UINT64_C(1) << stream_index(stream)) : NULL;
    engine_unlock();
    if (ready != NULL)
        stream_record(stream, ready, "cuEventRecord of a measurement");
    launch_ready();
    context_leave(before);
}

/*
 * xid.h - Xids of the ranks' GPUs: what the driver says of a GPU that has failed, beside what CUDA says of it, which is
 * often that some kernel has.
 *
 * Supervisor's thread; looks never wait. Source of the numbers: NVIDIA, "Xid Errors", on docs.nvidia.com.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_XID_H
#define DDPRUN_LAUNCHER_WATCH_XID_H

#include "launcher/start/devices.h"

struct xid_watch;

/* NULL: no NVML, or it is not known where the GPUs are. Freed by xid_watch_free(). `first_rank`: of devices->visible.
 */
struct xid_watch *xid_watch_new(const struct device_plan *devices, int rank_count, int first_rank);

/* Says each that has come, once. `watch` may be NULL, here and below. */
void xid_watch_look(struct xid_watch *watch);

/* What has come so far, as "Xid 79 of GPU 0000:3b:00.0, of rank 1: ..."; "" if nothing has. */
const char *xid_watch_text(const struct xid_watch *watch);

void xid_watch_free(struct xid_watch *watch);

#endif

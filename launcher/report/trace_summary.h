/*
 * trace_summary.h - the launcher's line in a trace: how the job ended, its settings, and the program's name.
 *
 * Ranks write their files by themselves. What only the launcher knows stands behind rank 0's last line, for
 * `ddprun report`. docs/trace.md has the format.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_TRACE_SUMMARY_H
#define DDPRUN_LAUNCHER_REPORT_TRACE_SUMMARY_H

#include "launcher/options/options.h"
#include "launcher/report/summary.h"

#include <stdint.h>

/*
 * After the ranks' end. Writes nothing if this job, which began at `begun_unix_ns`, has made no trace in `folder`: no
 * file, another one, or one of an earlier job. A failure is reported by `say`. Supervisor's thread.
 */
void trace_summary_add(const char *folder, int64_t begun_unix_ns, const struct summary *summary,
                       const struct options *options, void (*say)(const char *format, ...));

#endif

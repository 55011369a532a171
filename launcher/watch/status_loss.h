/*
 * status_loss.h - the job's status file may be cut short while ddprun has it mapped: by the trainer, or by a cleaner of
 * temporary files. The next access would end ddprun by SIGBUS, without a line (mmap(2)). After status_loss_watch() the
 * access reads zeros, and the supervisor ends the job with the reason.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_STATUS_LOSS_H
#define DDPRUN_LAUNCHER_WATCH_STATUS_LOSS_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, for page[bytes], a mapping of whole pages; before it is unmapped, with NULL and 0. Main thread. SIGBUS
 * anywhere else ends the process, as before. */
void status_loss_watch(void *page, size_t bytes);

/* Whether the file behind the mapping was too short at an access since then. */
bool status_loss_found(void);

#endif

/*
 * job_folder.h - the folder that all processes of one job share: status page, rank locks, the supervisor's socket
 * (base/protocol.h).
 *
 * Made and removed by the launcher, mode 0700; if the launcher is killed, the guardian removes the folder (spawn.h).
 * The launcher holds a flock on the folder itself as long as it lives, so that a later launcher can tell a folder whose
 * owner and guardian were killed from one in use, and removes it.
 */
#ifndef DDPRUN_LAUNCHER_START_JOB_FOLDER_H
#define DDPRUN_LAUNCHER_START_JOB_FOLDER_H

#include "launcher/common/error.h"

struct job_folder {
    char *path; /* absolute */
    int fd;     /* the folder, locked */
};

/* What a user does where nothing can be made in the folder, by errno: "raise the limit of open files". Static storage.
 */
const char *job_folder_remedy(int number);

/* Makes the folder in $XDG_RUNTIME_DIR if that is a place of this user's own with room, else in $TMPDIR or /tmp; where
 * another user could replace files there, in /dev/shm or /tmp, with a line. Removes what killed launchers of this user
 * left there. Error (DDPRUN_EXIT_FAILURE): the place does not exist or cannot be written, or there is no safe one. */
bool job_folder_make(struct job_folder *folder, struct error *error) MUST_USE;

/* Removes the folder with all that is in it, and what launchers left that were killed meanwhile. Silent about what
 * cannot be removed; the next launcher tries again. */
void job_folder_remove(struct job_folder *folder);

/* Removes the folder of a launcher that has ended, or ends just now. Async-signal-safe. */
void job_folder_clear(const char *path);

#endif

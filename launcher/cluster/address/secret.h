/*
 * secret.h - the user's secret, by which the ddprun of one job know each other over TCP. It never leaves the process.
 *
 * A file: --secret-file, or ~/.config/ddprun/secret, which the process that listens makes if there is none. Called by
 * meeting.c; one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SECRET_H
#define DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SECRET_H

#include "launcher/common/error.h"

#include <stddef.h>

enum { SECRET_LEAST_BYTES = 16, SECRET_MOST_BYTES = 4096, SECRET_PATH_BYTES = 4096 };

struct secret {
    unsigned char bytes[SECRET_MOST_BYTES]; /* without the line ends behind it */
    size_t count;
};

/* Where it is: `given`, or the default if that is NULL. Error (DDPRUN_EXIT_USAGE): there is no default without HOME. */
bool secret_path(const char *given, char path[SECRET_PATH_BYTES], struct error *error) MUST_USE;

/*
 * Reads the file, through links. It must be a file that no other user could have written, or put in its place: of this
 * user or root, writable by its owner only, and in folders that no other can change; the default one (`is_private`) of
 * this user, and readable by no other. *is_missing_p: there is no such file, which may be made yet. Error
 * (DDPRUN_EXIT_USAGE): one that cannot be used.
 */
bool secret_read(const char *path, bool is_private, struct secret *secret, bool *is_missing_p,
                 struct error *error) MUST_USE;

/* Makes the default file, with random bytes, whole or not at all; one that is there meanwhile stays. Error
 * (DDPRUN_EXIT_USAGE): it cannot be made. */
bool secret_make(const char *path, struct error *error) MUST_USE;

#endif

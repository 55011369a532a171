/*
 * search.h - finding the listener of a meeting: resolves the address, and connects to each of the meeting's ports until
 * one takes this process in (auth.h). Nothing blocks, the resolver of names included. Called by meeting.c; one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SEARCH_H
#define DDPRUN_LAUNCHER_CLUSTER_ADDRESS_SEARCH_H

#include "launcher/cluster/auth.h"
#include "launcher/common/error.h"

#include <poll.h>

enum { MEETING_PORTS = 16 };

struct search;

/* At `port` and the ports after it. `number`: as which this process is taken in. `address` must outlive it. */
struct search *search_open(const char *address, unsigned port, int number);
void search_close(struct search *search);

/* By which key both ends know each other, and the mark of this process's own listener, whose first half is the run's.
 */
void search_know(struct search *search, const unsigned char key[AUTH_BYTES], const unsigned char mark[AUTH_MARK_BYTES]);

enum search_place {
    PLACE_UNKNOWN, /* no address is known yet */
    PLACE_LOOPBACK,
    PLACE_HERE, /* this host has the address */
    PLACE_ELSEWHERE,
};

/* Asks again for addresses now and then, until there are some: a pod's name is known once the pod is. */
enum search_place search_resolve(struct search *search);

/* Appends, in brackets, that the address does not lead to this host, if so. For the process that listens. */
void search_describe_address(const struct search *search, char *text, size_t bytes);

enum search_answer {
    SEARCH_CONTINUES,
    SEARCH_FOUND,   /* *fd_p is the connection, the caller's, and `key` that of its session */
    SEARCH_REFUSED, /* a listener of this run does not take this process in; the search continues */
    SEARCH_SELF,    /* the address leads to this process's own listener */
};

/* Continues. Needs search_know(). *port_p: of the listener that refuses. */
enum search_answer search_step(struct search *search, int *fd_p, unsigned char key[AUTH_BYTES], unsigned *port_p);

/* What it waits for: MEETING_PORTS, fd -1 where there is nothing. */
void search_poll(struct search *search, struct pollfd polled[MEETING_PORTS]);

/* The protocol of the listener that refused last, where it is another version's; else 0. */
int search_other_version(const struct search *search);

/* Why nothing is found: "no answer". */
const char *search_reason(const struct search *search);

/* ---- secret.c: the user's secret, by which the ddprun of one job know each other over TCP ---- */
/*
 * It never leaves the process. A file: --secret-file, or ~/.config/ddprun/secret, which the process that listens makes
 * if there is none.
 */

enum { SECRET_LEAST_BYTES = 16, SECRET_MOST_BYTES = 4096, SECRET_PATH_BYTES = 4096 };

struct secret {
    unsigned char bytes[SECRET_MOST_BYTES]; /* without the line ends after it */
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

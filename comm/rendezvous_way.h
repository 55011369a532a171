/*
 * rendezvous_way.h - one way to meet: what rendezvous.c chooses among. Only the files rendezvous*.c include this.
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_WAY_H
#define DDPRUN_COMM_RENDEZVOUS_WAY_H

#include "comm/rendezvous.h"

/* The functions of rendezvous.h; `links` and `forget` may be NULL. */
struct rendezvous_way {
    bool (*open)(struct rendezvous *rendezvous, struct comm_error *error);
    bool (*links)(struct rendezvous *rendezvous, int *links, int timeout_s, struct comm_error *error);
    bool (*share)(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                  int timeout_s, struct comm_error *error);
    void (*abort)(struct rendezvous *rendezvous, int status, const char *message);
    bool (*launcher_is_gone)(void);
    void (*close)(struct rendezvous *rendezvous);
    void (*forget)(struct rendezvous *rendezvous);
};

extern const struct rendezvous_way rendezvous_pmix, rendezvous_folder, rendezvous_supervisor;

#endif
